"""ReLU."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def relu(x: Any) -> Any:
    """max(x, 0) (ONNX Relu-14)."""
    return np.maximum(x, 0)


@relu.form
def _(x: Any) -> Any:
    return record("Relu", [x], x.shape, x.dtype)
