"""GatherND: select by coordinates."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._indexing import coordinates, nd_shape
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def gather_nd(x: Array, indices: Array) -> Array:
    """Return `y[i, ...] = x[*indices[i, ...]]`, of shape `(*indices.shape[:-1], *x.shape[k:])`.

    The last axis of `indices` (..., k) holds coordinates of the first k axes of `x`: they select elements if k is
    the rank of `x`, and slices if it is less. ONNX GatherND-13 with batch_dims 0. Raises LayerError if k is not 1
    to the rank of `x`, and, for NumPy arrays, if a coordinate is outside its axis.
    """
    nd_shape(x, indices, "gather_nd")
    return np.asarray(x[coordinates(indices, x.shape)])


@gather_nd.form
def _(x: Array, indices: Array) -> Array:
    return record("GatherND", [x, indices], nd_shape(x, indices, "gather_nd"), x.dtype)
