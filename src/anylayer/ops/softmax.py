"""Softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._indexing import axis_of
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def softmax(x: Any, *, axis: int = -1) -> Any:
    """exp(x) / sum(exp(x)) over `axis`, of the shape of `x` (ONNX Softmax-13)."""
    axis = axis_of(axis, len(x.shape))
    e = np.exp(x - x.max(axis=axis, keepdims=True, initial=-np.inf))
    return e / e.sum(axis=axis, keepdims=True)


@softmax.form
def _(x: Any, *, axis: int = -1) -> Any:
    """ONNX Runtime transposes for an inner axis: 5.0 ms for 150 x 60 x 60 over the channels, 0.47 ms in pieces."""
    axis, shape = axis_of(axis, len(x.shape)), tuple(x.shape)
    if all(d == 1 for d in shape[axis + 1 :]):
        return record("Softmax", [x], shape, x.dtype, axis=axis)
    one, axes = (*shape[:axis], 1, *shape[axis + 1 :]), np.array([axis])
    top = record("ReduceMax", [x, axes], one, x.dtype)
    e = record("Exp", [record("Sub", [x, top], shape, x.dtype)], shape, x.dtype)
    return record("Div", [e, record("ReduceSum", [e, axes], one, x.dtype)], shape, x.dtype)
