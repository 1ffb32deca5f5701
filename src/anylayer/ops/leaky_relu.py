"""Leaky ReLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def leaky_relu(x: Any, alpha: float = 0.01) -> Any:
    """x where it is positive, else alpha * x (ONNX LeakyRelu-16)."""
    return np.where(x > 0, x, x * x.dtype.type(alpha))


@leaky_relu.form
def _(x: Any, alpha: float = 0.01) -> Any:
    return record("LeakyRelu", [x], x.shape, x.dtype, alpha=float(alpha))
