"""The logarithm of softmax."""

from __future__ import annotations

import numpy as np

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
    return low - np.log(np.exp(low).sum(axis=axis, keepdims=True))


@log_softmax.form
def _(x: Array, *, axis: int = -1) -> Array:
    return record("LogSoftmax", [x], x.shape, x.dtype, axis=axis_of(axis, len(x.shape)))
