"""Gather: select along one axis by index."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._indexing import axis_of, in_range
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def gather(x: Array, indices: Array, *, axis: int = 0) -> Array:
    """Return `x` with `axis` indexed by `indices`: the axes of `indices` replace `axis` (ONNX Gather-13).

    `indices` are integers of any shape; a negative index counts from the end. Unlike np.take, this can be traced
    if `indices` is traced and `x` is not. Raises LayerError for indices that are not integers, and, where they are
    NumPy arrays, for an index outside -n to n - 1.
    """
    axis = _check_axis(x, indices, axis)
    return np.take(x, in_range(indices, x.shape[axis], axis), axis=axis)


def _check_axis(x: Array, indices: Array, axis: int) -> int:
    need(indices.dtype.kind in "iu", f"gather takes integers as indices, got {indices.dtype}")
    return axis_of(axis, len(x.shape), of=f"shape {tuple(x.shape)}")


@gather.form
def _(x: Array, indices: Array, *, axis: int = 0) -> Array:
    axis = _check_axis(x, indices, axis)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return record("Gather", [x, indices.astype(np.int64)], shape, x.dtype, axis=axis)
