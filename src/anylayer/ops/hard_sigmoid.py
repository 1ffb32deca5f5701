"""The hard sigmoid."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import elementwise


@elementwise("HardSigmoid")
def hard_sigmoid(x: Array, alpha: float = 0.2, beta: float = 0.5) -> Array:
    """Return alpha * x + beta, clipped to [0, 1], in the shape and dtype of `x` (ONNX HardSigmoid-6)."""
    kind = x.dtype.type
    return np.clip(x * kind(alpha) + kind(beta), kind(0), kind(1))
