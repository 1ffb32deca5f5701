"""The rectified linear unit."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def relu(x: Array) -> Array:
    """Return max(x, 0), in the shape and dtype of `x` (ONNX Relu-14)."""
    return np.maximum(x, 0)


@relu.form
def _(x: Array) -> Array:
    return record("Relu", [x], x.shape, x.dtype)
