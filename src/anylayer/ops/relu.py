"""The rectified linear unit."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import elementwise


@elementwise("Relu")
def relu(x: Array) -> Array:
    """Return max(x, 0), in the shape and dtype of `x` (ONNX Relu-14)."""
    return np.maximum(x, 0)
