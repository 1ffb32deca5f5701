"""GatherElements: select elements along one axis."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._indexing import axis_of, in_range, indexed_part, need_inside
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def gather_elements(x: Array, indices: Array, axis: int) -> Array:
    """Return the elements of `x` at `indices` along `axis`, in the shape of `indices` (ONNX GatherElements-13).

    For `axis` 1: y[i, j, ...] = x[i, indices[i, j, ...], ...]. `indices` has the rank of `x` and is no longer than
    `x` on the other axes. A negative index counts from the end. Raises LayerError for a wrong rank or shape, and,
    where `indices` is a NumPy array, for an index outside the axis.
    """
    axis = axis_of(axis, len(x.shape))
    need_inside(x, indices, axis, "gather_elements")
    return np.take_along_axis(x[indexed_part(indices.shape, axis)], in_range(indices, x.shape[axis], axis), axis)


@gather_elements.form
def _(x: Array, indices: Array, axis: int) -> Array:
    axis = axis_of(axis, len(x.shape))
    need_inside(x, indices, axis, "gather_elements")
    for other, n in enumerate(indices.shape):
        # OpenVINO requires equal sizes, and removes a Slice that makes them equal: use a Gather
        if other != axis and n != x.shape[other]:
            shape = (*x.shape[:other], n, *x.shape[other + 1 :])
            x = record("Gather", [x, np.arange(n)], shape, x.dtype, axis=other)
    return record("GatherElements", [x, indices], indices.shape, x.dtype, axis=axis)
