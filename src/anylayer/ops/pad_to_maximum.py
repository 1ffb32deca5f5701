"""Rows behind a dynamic number of rows, up to its maximum."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.graph.sizes import Dim
from anylayer.ops._operator import operator
from anylayer.tracing import record


def _axis(x: Any, axis: int) -> int:
    rank = len(x.shape)
    need(-rank <= axis < rank, f"axis {axis} is not one of {rank} axes")
    return axis % rank


@operator
def pad_to_maximum(x: Any, value: float, *, axis: int = 0) -> Any:
    """Pad a dynamic size of `x` with `value` up to its maximum; an array whose size along `axis` is static stays.

    The inverse of `head` for code whose result does not depend on entries of `value`: NumPy arrays are returned
    unchanged, traced arrays have a static size behind it.
    """
    _axis(x, axis)
    return x


@pad_to_maximum.form
def _(x: Any, value: float, *, axis: int = 0) -> Any:
    axis = _axis(x, axis)
    size = x.shape[axis]
    if not isinstance(size, Dim):
        return x
    rank = len(x.shape)
    real = record("Shape", [x], (1,), np.int64, start=axis, end=axis + 1)
    missing = record("Sub", [np.array([size.maximum]), real], (1,), np.int64)
    before, after = np.zeros(rank + axis, np.int64), np.zeros(rank - 1 - axis, np.int64)
    pads = record("Concat", [before, missing, *([after] if len(after) else [])], (2 * rank,), np.int64, axis=0)
    shape = (*x.shape[:axis], size.maximum, *x.shape[axis + 1 :])
    return record("Pad", [x, pads, np.array(value, x.dtype)], shape, x.dtype)
