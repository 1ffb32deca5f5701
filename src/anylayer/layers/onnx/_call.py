"""A call of an operator: its name, attributes and inputs; and the tables of NumPy meanings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.folders import Table
from anylayer.network import Array
from anylayer.tracing import is_traced, size_list

_PLAIN = frozenset(
    ("bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64")
)


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Return whether NumPy itself computes with a dtype; it does not with bfloat16, float8 and 4-bit integers."""
    return dtype.name in _PLAIN


class NoMeaning(Exception):
    """Raised when a NumPy meaning does not cover a form of its operator; onnx's reference implementation does."""


Meaning = Callable[..., Any]
"""A function (call, *inputs) -> an array, or a list or tuple of arrays. An absent input is None or not passed."""


@dataclass(slots=True)
class OpCall:
    """A call of an operator.

    `attrs` holds every attribute of the schema at `version`, None where there is no value. `shape` is the shape to
    restore when the operator is computed on a flattened input.
    """

    op: str
    version: int
    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    shape: tuple[int, ...] | None = None

    def __getitem__(self, name: str) -> Any:
        return self.attrs.get(name)

    def is_constant(self, i: int) -> bool:
        """Return whether input `i` is absent, or does not depend on the data of the network's inputs."""
        x = self.input(i)
        return not is_traced(x) or size_list(x) is not None

    def input(self, i: int) -> Array | None:
        """Return input `i`, or None when it is absent."""
        return self.inputs[i] if i < len(self.inputs) else None


MEANINGS: Table[str, Meaning] = Table()
"""The NumPy meanings by operator, where the reference implementation of onnx is wrong or slow, or where open
sizes or dtypes need the operator recorded in another way. tests/layers/onnx/meanings.py lists the reasons."""
SPELLED_OUT: Table[str, Callable[[OpCall], None]] = Table()
"""Functions that make the attributes of a call explicit, in place, before it is computed or recorded."""
ANY_SIZE: set[str] = set()
"""Operators whose attributes are made explicit for dynamic sizes too; for the others, all sizes must be static."""
TRACEABLE: set[str] = set()
"""Operators whose meaning is traced in their place where engines do not support the dtype."""
SHAPES_ONLY: set[str] = set()
"""Operators that use only the shapes of their inputs, or return an input."""
RECORDED: set[str] = set()
"""Operators that are recorded as the operators of their meaning, because engines lack them."""
ARRAYS_ONLY: set[str] = set()
"""Operators whose meaning cannot be traced; traced, they are always recorded as themselves."""


def of(function: Callable[..., Any], *names: str, **renamed: str) -> Meaning:
    """Return the meaning that calls a function of the inputs with attributes of the operator as keywords.

    names: attributes that have the name of a keyword. renamed: other attributes, by keyword. An attribute
    without a value is left out, so that the function's default applies.
    """
    attributes = {**dict(zip(names, names)), **renamed}

    def compute(call: OpCall, *inputs: Any) -> Any:
        options = {keyword: call[name] for keyword, name in attributes.items() if call[name] is not None}
        return function(*inputs, **options)

    return compute


def meanings(rows: Mapping[str, Callable[..., Any]], traceable: bool = False) -> None:
    """Register functions of the inputs as the NumPy meanings of operators whose attributes do not affect them."""
    for op, function in rows.items():
        meaning(op, traceable=traceable)(of(function))


def meaning(
    *ops: str,
    traceable: bool = False,
    shapes_only: bool = False,
    recorded: bool = False,
    arrays_only: bool = False,
) -> Callable[[Meaning], Meaning]:
    """Register a function as the NumPy meaning of operators.

    `traceable`: the function can be traced, which replaces the operator where engines do not support the dtype.
    `shapes_only`: the function uses only the shapes of its inputs, or returns an input. `recorded`: the operator
    is always recorded as the operators of the function. `arrays_only`: the function cannot be traced.
    """

    def enter(function: Meaning) -> Meaning:
        for op in ops:
            MEANINGS[op] = function
            if traceable:
                TRACEABLE.add(op)
            if shapes_only:
                SHAPES_ONLY.add(op)
            if recorded:
                RECORDED.add(op)
            if arrays_only:
                ARRAYS_ONLY.add(op)
        return function

    return enter
