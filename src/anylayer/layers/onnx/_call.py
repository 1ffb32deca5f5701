"""An operator as it is called: its name, attributes and inputs in today's form; and where its NumPy meaning is
found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.folders import Table

_PLAIN = frozenset(
    ("bool", *(f"{u}int{bits}" for u in ("", "u") for bits in (8, 16, 32, 64)), "float16", "float32", "float64")
)


def is_plain(dtype: np.dtype[Any]) -> bool:
    """Whether a dtype is one that NumPy itself computes with; bfloat16, float8 and four bits are not."""
    return dtype.name in _PLAIN


class Uncovered(Exception):
    """A meaning does not cover this form of its operator: onnx's reference implementation does."""


Meaning = Callable[..., Any]
"""(call, *inputs) -> an array, or a list or tuple of them; an input left out is None or not there."""


@dataclass(slots=True)
class Call:
    """One operator: `attrs` holds every attribute of its schema at `version`, None where there is no value.
    `shape` is what its output is to be reshaped to, where it is computed on a flattened input."""

    op: str
    version: int
    inputs: list[Any]
    attrs: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1
    shape: tuple[int, ...] | None = None

    def __getitem__(self, name: str) -> Any:
        return self.attrs.get(name)

    def input(self, i: int) -> Any:
        """Input `i`, None where it is left out."""
        return self.inputs[i] if i < len(self.inputs) else None


MEANINGS: Table[str, Meaning] = Table()
"""Operators with a NumPy meaning of their own; the others mean what onnx's reference implementation computes."""
SPELLED_OUT: Table[str, Callable[[Call], None]] = Table()
"""What writes an operator's attributes out before it is computed or recorded, in place."""
ANY_SIZE = frozenset(("Transpose", "Dropout", "LRN"))
"""Operators of which that is done whatever their inputs' sizes; of the others, where all sizes are known."""
TRACEABLE: set[str] = set()
"""Those whose meaning can be traced: it is recorded in their place where engines lack the dtype."""
SHAPES_ONLY: set[str] = set()
"""Those that ask for nothing but the shapes of their inputs, or give an input back."""


def meaning(*ops: str, traceable: bool = False, shapes_only: bool = False) -> Callable[[Meaning], Meaning]:
    """Enter a function as the NumPy meaning of operators."""

    def enter(function: Meaning) -> Meaning:
        for op in ops:
            MEANINGS[op] = function
            if traceable:
                TRACEABLE.add(op)
            if shapes_only:
                SHAPES_ONLY.add(op)
        return function

    return enter
