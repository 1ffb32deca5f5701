"""The exponential linear unit."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def elu(x: Array, alpha: float = 1.0) -> Array:
    """Return x where x > 0, and alpha * (exp(x) - 1) elsewhere, in the shape and dtype of `x` (ONNX Elu-6)."""
    return np.where(x > 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))


@elu.form
def _(x: Array, alpha: float = 1.0) -> Array:
    return record("Elu", [x], x.shape, x.dtype, alpha=float(alpha))
