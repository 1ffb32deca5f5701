"""Softplus."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import elementwise


@elementwise("Softplus")
def softplus(x: Array) -> Array:
    """Return log(1 + exp(x)), computed without overflow, in the shape and dtype of `x` (ONNX Softplus-1)."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))
