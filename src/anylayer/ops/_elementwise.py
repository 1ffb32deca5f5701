"""Elementwise ONNX operators that all have the shape and dtype of one array."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from anylayer.tracing import record


class Elementwise:
    """Record elementwise operators whose results have the shape and dtype of `x`.

    Called with an operator's name and its inputs, which must broadcast to `x`. Python numbers become constants of
    the dtype of `x`.
    """

    def __init__(self, x: Array) -> None:
        self.shape, self.dtype = tuple(x.shape), np.dtype(x.dtype)

    def __call__(self, op: str, *inputs: Array | float, **attrs: Any) -> Array:
        arrays = [np.array(v, self.dtype) if isinstance(v, (int, float)) else v for v in inputs]
        return record(op, arrays, self.shape, self.dtype, **attrs)
