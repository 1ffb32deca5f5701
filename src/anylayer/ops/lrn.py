"""Local response normalization."""

from __future__ import annotations

import math

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
    base = _neighbor_sums(x * x, size) * x.dtype.type(alpha / size) + x.dtype.type(bias)
    if beta == 0.75:
        root = np.sqrt(base)
        y: Array = x / (root * np.sqrt(root))
    else:
        y = x * base ** x.dtype.type(-beta)
    return y


def _size(x: Array, size: int) -> int:
    need(len(x.shape) >= 2, f"lrn needs an input (N, C, ...), got shape {tuple(x.shape)}")
    return integer(size, "size")


def _neighbor_sums(squares: Array, size: int) -> Array:
    total = np.zeros_like(squares)
    channels = squares.shape[1]
    before, after = _reach(size, channels)
    for shift in range(-before, after + 1):
        total[:, max(-shift, 0) : channels - max(shift, 0)] += squares[
            :, max(shift, 0) : channels - max(-shift, 0)
        ]
    return total


def _reach(size: int, channels: int) -> tuple[int, int]:
    """Return how many channels before and after its own channel a sum includes, of those that exist."""
    return min((size - 1) // 2, channels - 1), min(size // 2, channels - 1)


@lrn.form
def _(x: Array, size: int, *, alpha: float = 1e-4, beta: float = 0.75, bias: float = 1.0) -> Array:
    """Record LRN for odd sizes and a positive bias, else a sum of slices.

    ONNX Runtime's LRN takes rank 4 and odd sizes only, so that other ranks are reshaped to (N, C, rest, 1).
    OpenVINO 2026.4 truncates `bias` to an integer, so that a bias such as 1.5 is taken out of the power as a
    factor.
    """
    size, shape = _size(x, size), tuple(x.shape)
    if size % 2 == 0 or bias <= 0:
        return _sums(x, size, alpha, beta, bias)
    factor = 1.0 if float(bias).is_integer() else bias
    flat = x if len(shape) == 4 else x.reshape(shape[0], shape[1], math.prod(shape[2:]), 1)
    attrs = {"size": size, "alpha": alpha / factor, "beta": beta, "bias": bias / factor}
    y = record("LRN", [flat], flat.shape, x.dtype, **attrs)
    if factor != 1.0:
        y = y * x.dtype.type(factor**-beta)
    return y if len(shape) == 4 else y.reshape(shape)


def _sums(x: Array, size: int, alpha: float, beta: float, bias: float) -> Array:
    """Compute LRN as a sum of slices of the padded squared input."""
    kind, shape = x.dtype, tuple(x.shape)
    channels = shape[1]
    before, after = _reach(size, channels)

    def scalar(value: float) -> Array:
        return np.array(value, kind)

    squares = record("Mul", [x, x], shape, kind)
    pads = np.zeros(2 * len(shape), np.int64)
    pads[1], pads[len(shape) + 1] = before, after
    wide = record("Pad", [squares, pads], (shape[0], before + channels + after, *shape[2:]), kind)
    total: Array | None = None
    for first in range(before + 1 + after):
        part = record("Slice", [wide, *(np.array([v]) for v in (first, first + channels, 1))], shape, kind)
        total = part if total is None else record("Add", [total, part], shape, kind)
    mean = record("Mul", [total, scalar(alpha / size)], shape, kind)
    base = record("Add", [mean, scalar(bias)], shape, kind)
    if beta != 0.75:
        return record("Mul", [x, record("Pow", [base, scalar(-beta)], shape, kind)], shape, kind)
    root = record("Sqrt", [base], shape, kind)  # Pow takes four times as long
    root = record("Mul", [root, record("Sqrt", [root], shape, kind)], shape, kind)
    return record("Div", [x, root], shape, kind)
