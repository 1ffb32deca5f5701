"""Tracing: call a function with arrays that have no values, and record its NumPy calls as ONNX operators.

The files that only some code needs are loaded when they are first used.
"""

import sys
from typing import TYPE_CHECKING

from anylayer.folders import NamesByFile
from anylayer.tracing import operators as _operators  # noqa: F401 (adds the operators to TracedArray)
from anylayer.tracing.array import TracedArray, is_traced
from anylayer.tracing.checked import compare, trace_checked
from anylayer.tracing.reach import CodeTraits, code_traits
from anylayer.tracing.record import (
    SizeDependsOnData,
    call_user,
    record,
    record_many,
    running_graph,
    substituted,
    trace,
)
from anylayer.tracing.size_arithmetic import constant_of, hold, size_list

if TYPE_CHECKING:
    from anylayer.tracing import (
        causes,
        changed_code,
        counts,
        decisions,
        dispatch,
        grown,
        joined_ifs,
        joins,
        loops,
        masks,
        number_lists,
        objects,
        python_numbers,
        recorded_loops,
        sets,
        size_arithmetic,
        substitution,
        substitution_symbolic,
    )

__all__ = [
    "CodeTraits",
    "SizeDependsOnData",
    "TracedArray",
    "call_user",
    "causes",
    "changed_code",
    "code_traits",
    "compare",
    "constant_of",
    "counts",
    "decisions",
    "dispatch",
    "grown",
    "hold",
    "is_traced",
    "joined_ifs",
    "joins",
    "loops",
    "masks",
    "number_lists",
    "objects",
    "python_numbers",
    "record",
    "record_many",
    "recorded_loops",
    "running_graph",
    "sets",
    "size_arithmetic",
    "size_list",
    "substituted",
    "substitution",
    "substitution_symbolic",
    "trace",
    "trace_checked",
]  # fmt: skip

sys.modules[__name__].__class__ = NamesByFile
