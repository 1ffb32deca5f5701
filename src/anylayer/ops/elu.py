"""ELU."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def elu(x: Any, alpha: float = 1.0) -> Any:
    """x where it is positive, else alpha * (exp(x) - 1) (ONNX Elu-6)."""
    return np.where(x > 0, x, x.dtype.type(alpha) * np.expm1(np.minimum(x, 0)))


@elu.form
def _(x: Any, alpha: float = 1.0) -> Any:
    return record("Elu", [x], x.shape, x.dtype, alpha=float(alpha))
