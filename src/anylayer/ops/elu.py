"""The exponential linear unit."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import elementwise


@elementwise("Elu")
def elu(x: Array, alpha: float = 1.0) -> Array:
    """Return x where x > 0, and alpha * (exp(x) - 1) elsewhere, in the shape and dtype of `x` (ONNX Elu-6)."""
    return np.where(x > 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))
