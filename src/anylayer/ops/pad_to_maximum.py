"""pad_to_maximum: make a dynamic size static."""

from __future__ import annotations

import numpy as np

from anylayer.graph.sizes import Dim
from anylayer.network import Array
from anylayer.ops._indexing import axis_of
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def pad_to_maximum(x: Array, value: float, *, axis: int = 0) -> Array:
    """Pad a dynamic size of `x` along `axis` with `value` up to its maximum, so that the size becomes static.

    This is the inverse of `head`, for code whose result does not depend on the padding. NumPy arrays, and arrays
    whose size along `axis` is static, are returned unchanged. Raises LayerError if `axis` does not exist.
    """
    axis_of(axis, len(x.shape))
    return x


@pad_to_maximum.form
def _(x: Array, value: float, *, axis: int = 0) -> Array:
    axis = axis_of(axis, len(x.shape))
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
