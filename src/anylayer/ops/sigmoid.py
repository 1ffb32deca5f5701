"""Sigmoid."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow (ONNX Sigmoid-13)."""
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


@sigmoid.form
def _(x: Any) -> Any:
    return record("Sigmoid", [x], x.shape, x.dtype)
