"""ScatterElements: write elements along one axis."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._indexing import axis_of, in_range, need_inside, need_reduction, scatter
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def scatter_elements(x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none") -> Array:
    """Return a copy of `x` with `updates` written at `indices` along `axis` (ONNX ScatterElements-18).

    For `axis` 1: y[i, indices[i, j, ...], ...] = updates[i, j, ...]. `reduction` "add", "mul", "max" or "min"
    combines an update with the element instead. With "none", the last of several updates of one element stays.
    Raises LayerError for a wrong shape, axis or reduction, and for NumPy arrays if an index is outside the axis.
    """
    axis = _check(x, indices, updates, axis, reduction)
    places = list(np.ogrid[tuple(slice(n) for n in indices.shape)])
    places[axis] = in_range(indices, x.shape[axis], axis)
    return scatter(x, tuple(places), updates, reduction)


def _check(x: Array, indices: Array, updates: Array, axis: int, reduction: str) -> int:
    axis = axis_of(axis, len(x.shape))
    need_inside(x, indices, axis, "scatter_elements")
    same = tuple(updates.shape) == tuple(indices.shape)
    need(same, f"updates must be of the shape of the indices {tuple(indices.shape)}, got {tuple(updates.shape)}")
    need_reduction(reduction)
    return axis


@scatter_elements.form
def _(x: Array, indices: Array, updates: Array, *, axis: int = 0, reduction: str = "none") -> Array:
    axis = _check(x, indices, updates, axis, reduction)
    how = None if reduction == "none" else reduction
    return record("ScatterElements", [x, indices, updates], x.shape, x.dtype, axis=axis, reduction=how)
