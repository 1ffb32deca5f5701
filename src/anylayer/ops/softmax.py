"""Softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def softmax(x: Any, *, axis: int = -1) -> Any:
    """exp(x) / sum(exp(x)) over `axis`, of the shape of `x` (ONNX Softmax-13)."""
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


@softmax.form
def _(x: Any, *, axis: int = -1) -> Any:
    return record("Softmax", [x], x.shape, x.dtype, axis=axis % x.ndim)
