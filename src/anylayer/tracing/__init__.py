"""Tracing: call a function with arrays that have no values, and record its NumPy calls as ONNX operators."""

from anylayer.tracing import rules as _rules  # noqa: F401 (importing it registers all rules)
from anylayer.tracing.array import TracedArray, is_traced
from anylayer.tracing.checked import compare, trace_checked
from anylayer.tracing.counts import SizeDependsOnData
from anylayer.tracing.reach import CodeTraits, code_traits
from anylayer.tracing.record import record, record_many, running_graph, trace
from anylayer.tracing.size_arithmetic import constant_of, hold, size_list
from anylayer.tracing.substitution import call_user, substitute_numpy, substituted

__all__ = [
    "CodeTraits", "SizeDependsOnData", "TracedArray", "call_user", "code_traits", "compare", "constant_of",
    "hold", "is_traced", "record", "record_many", "running_graph", "size_list", "substitute_numpy",
    "substituted", "trace", "trace_checked",
]  # fmt: skip
