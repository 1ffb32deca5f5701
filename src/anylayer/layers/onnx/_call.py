"""A call of an operator: its name, attributes and inputs; and the tables of NumPy meanings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.folders import Table
from anylayer.network import Array

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


def meaning(
    *ops: str, traceable: bool = False, shapes_only: bool = False, recorded: bool = False
) -> Callable[[Meaning], Meaning]:
    """Register a function as the NumPy meaning of operators.

    `traceable`: the function can be traced, which replaces the operator where engines do not support the dtype.
    `shapes_only`: the function uses only the shapes of its inputs, or returns an input. `recorded`: the operator
    is always recorded as the operators of the function.
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
        return function

    return enter
