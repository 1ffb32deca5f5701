"""Softmax."""

from __future__ import annotations

import numpy as np

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
    return e / e.sum(axis=axis, keepdims=True)


@softmax.form
def _(x: Array, *, axis: int = -1) -> Array:
    return record("Softmax", [x], x.shape, x.dtype, axis=axis_of(axis, len(x.shape)))
