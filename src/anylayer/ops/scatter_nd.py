"""ScatterND: write by coordinates."""

from __future__ import annotations

from anylayer.errors import need_shape
from anylayer.network import Array
from anylayer.ops._indexing import coordinates, nd_shape, need_reduction, scatter
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def scatter_nd(x: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    """Return a copy of `x` with `y[*indices[i, ...]] = updates[i, ...]` (ONNX ScatterND-18).

    `updates` has the shape that `gather_nd(x, indices)` returns. `reduction` is that of `scatter_elements`.
    Raises LayerError for a wrong shape or reduction, and for NumPy arrays if a coordinate is outside its axis.
    """
    _check(x, indices, updates, reduction)
    return scatter(x, coordinates(indices, x.shape), updates, reduction)


def _check(x: Array, indices: Array, updates: Array, reduction: str) -> None:
    shape = nd_shape(x, indices, "scatter_nd")
    need_shape(updates, shape, "updates")
    need_reduction(reduction)


@scatter_nd.form
def _(x: Array, indices: Array, updates: Array, *, reduction: str = "none") -> Array:
    _check(x, indices, updates, reduction)
    how = None if reduction == "none" else reduction
    return record("ScatterND", [x, indices, updates], x.shape, x.dtype, reduction=how)
