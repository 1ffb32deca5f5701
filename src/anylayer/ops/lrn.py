"""Local response normalization."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import integer
from anylayer.tracing import record


@operator
def lrn(x: Array, size: int, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    """Return x / (bias + alpha / size * s)^beta, where s sums x^2 over `size` neighboring channels (ONNX LRN-13).

    `x` is (N, C, ...). The neighbors of channel c are the channels c - (size - 1) // 2 to c + size // 2 that
    exist. Raises LayerError if `x` has less than two axes or `size` is not a positive integer.
    """
    size = _size(x, size)
    channels = x.shape[1]
    before, after = min((size - 1) // 2, channels - 1), min(size // 2, channels - 1)
    squares = np.pad(x * x, [(0, 0), (before, after), *[(0, 0)] * (len(x.shape) - 2)])
    total = squares[:, :channels]
    for first in range(1, before + 1 + after):
        total = total + squares[:, first : first + channels]
    base = total * x.dtype.type(alpha / size) + x.dtype.type(bias)
    if beta == 0.75:  # a power takes four times as long
        root = np.sqrt(base)
        y: Array = x / (root * np.sqrt(root))
    else:
        y = x * base ** x.dtype.type(-beta)
    return y


def _size(x: Array, size: int) -> int:
    need(len(x.shape) >= 2, f"lrn needs an input (N, C, ...), got shape {tuple(x.shape)}")
    return integer(size, "size")


@lrn.form
def _(x: Array, size: int, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    attrs = {"size": _size(x, size), "alpha": float(alpha), "beta": float(beta), "bias": float(bias)}
    return record("LRN", [x], x.shape, x.dtype, **attrs)
