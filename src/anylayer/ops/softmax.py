"""Softmax."""

from __future__ import annotations

import numpy as np

from anylayer.graph.sizes import is_one
from anylayer.network import Array
from anylayer.ops._indexing import axis_of
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def softmax(x: Array, *, axis: int = -1) -> Array:
    """Return exp(x) / sum(exp(x)) over `axis`, in the shape and dtype of `x` (ONNX Softmax-13).

    It is computed without overflow. Raises LayerError if `axis` does not exist.
    """
    axis = axis_of(axis, len(x.shape))
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    result: Array = e / e.sum(axis=axis, keepdims=True)
    return result


@softmax.form
def _(x: Array, *, axis: int = -1) -> Array:
    """Record separate operators for an inner axis, because ONNX Runtime's Softmax transposes the input there.

    For 150 x 60 x 60 over the channels, Softmax takes 5.0 ms and the separate operators 0.47 ms.
    """
    axis, shape = axis_of(axis, len(x.shape)), tuple(x.shape)
    if all(map(is_one, shape[axis + 1 :])):
        return record("Softmax", [x], shape, x.dtype, axis=axis)
    one, axes = (*shape[:axis], 1, *shape[axis + 1 :]), np.array([axis])
    top = record("ReduceMax", [x, axes], one, x.dtype)
    e = record("Exp", [record("Sub", [x, top], shape, x.dtype)], shape, x.dtype)
    return record("Div", [e, record("ReduceSum", [e, axes], one, x.dtype)], shape, x.dtype)
