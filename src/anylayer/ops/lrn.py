"""Local response normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.ops._operator import operator
from anylayer.ops._spatial import whole


@operator
def lrn(x: Any, size: int, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Any:
    """x / (bias + alpha / size * s)^beta, where s sums x^2 over `size` neighbouring channels (ONNX LRN-13).

    The neighbours of channel c are c - (size - 1) // 2 to c + size // 2, as far as they exist. `x` is (N, C, ...).
    """
    size = _size(x, size)
    base = _neighbours(x * x, size) * x.dtype.type(alpha / size) + x.dtype.type(bias)
    if beta == 0.75:
        root = np.sqrt(base)
        return x / (root * np.sqrt(root))
    return x * base ** x.dtype.type(-beta)


def _size(x: Any, size: Any) -> int:
    need(len(x.shape) >= 2, f"lrn needs an input (N, C, ...), got shape {tuple(x.shape)}")
    return whole(size, "size")


def _neighbours(squares: Any, size: int) -> Any:
    total = np.zeros_like(squares)
    channels = squares.shape[1]
    for shift in range(-((size - 1) // 2), size // 2 + 1):
        if abs(shift) < channels:
            total[:, max(-shift, 0) : channels - max(shift, 0)] += squares[
                :, max(shift, 0) : channels - max(-shift, 0)
            ]
    return total
