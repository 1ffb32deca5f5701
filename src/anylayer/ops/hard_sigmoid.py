"""Hard sigmoid."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._elementwise import Pieces
from anylayer.ops._operator import operator


@operator
def hard_sigmoid(x: Any, alpha: float = 0.2, beta: float = 0.5) -> Any:
    """alpha * x + beta, held between 0 and 1 (ONNX HardSigmoid-6)."""
    kind = x.dtype.type
    return np.clip(x * kind(alpha) + kind(beta), kind(0), kind(1))


@hard_sigmoid.form
def _(x: Any, alpha: float = 0.2, beta: float = 0.5) -> Any:
    return Pieces(x)("HardSigmoid", x, alpha=float(alpha), beta=float(beta))
