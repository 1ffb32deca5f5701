"""The leaky ReLU."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import elementwise


@elementwise("LeakyRelu")
def leaky_relu(x: Array, alpha: float = 0.01) -> Array:
    """Return x where x > 0, and alpha * x elsewhere, in the shape and dtype of `x` (ONNX LeakyRelu-16)."""
    return np.where(x > 0, x, x * x.dtype.type(alpha))
