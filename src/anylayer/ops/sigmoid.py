"""The logistic sigmoid."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import elementwise


@elementwise("Sigmoid")
def sigmoid(x: Array) -> Array:
    """Return 1 / (1 + exp(-x)), computed without overflow, in the shape and dtype of `x` (ONNX Sigmoid-13)."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)
