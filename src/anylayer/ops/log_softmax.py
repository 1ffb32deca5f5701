"""The logarithm of softmax."""

from __future__ import annotations

import numpy as np

from anylayer.graph.sizes import is_one
from anylayer.network import Array
from anylayer.ops._indexing import axis_of
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def log_softmax(x: Array, *, axis: int = -1) -> Array:
    """Return x - log(sum(exp(x))) over `axis`, computed without overflow (ONNX LogSoftmax-13).

    The shape and dtype are those of `x`. Raises LayerError if `axis` does not exist.
    """
    axis = axis_of(axis, len(x.shape))
    low = x - x.max(axis=axis, keepdims=True, initial=-np.inf)
    result: Array = low - np.log(np.exp(low).sum(axis=axis, keepdims=True))
    return result


@log_softmax.form
def _(x: Array, *, axis: int = -1) -> Array:
    """Record separate operators for an inner axis, for the reason given in `softmax`."""
    axis, shape = axis_of(axis, len(x.shape)), tuple(x.shape)
    if all(map(is_one, shape[axis + 1 :])):
        return record("LogSoftmax", [x], shape, x.dtype, axis=axis)
    one, axes = (*shape[:axis], 1, *shape[axis + 1 :]), np.array([axis])
    low = record("Sub", [x, record("ReduceMax", [x, axes], one, x.dtype)], shape, x.dtype)
    total = record("ReduceSum", [record("Exp", [low], shape, x.dtype), axes], one, x.dtype)
    return record("Sub", [low, record("Log", [total], one, x.dtype)], shape, x.dtype)
