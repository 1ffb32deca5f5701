"""Operators over windows, written as NumPy functions: pooling, convolutions, local response normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.graph import Op
from anylayer.graph.facts import Window, window_of
from anylayer.loops.composites import composite
from anylayer.loops.lowering import Unsupported
from anylayer.tracing.primitives import arange


def _window(op: Op) -> Window:
    window = window_of(op)
    if window is None:
        raise Unsupported("padding that depends on the size of its input")
    return window


def _cells(x: Any, window: Window, fill: float) -> Any:
    """Return the cells of each window: (N, C, kernel..., counts...). Cells in the padding hold `fill`."""
    if any(window.pads):
        amounts = [(0, 0), (0, 0), *zip(window.begins, window.ends)]
        x = np.pad(x, amounts, constant_values=x.dtype.type(fill))
    for a, (k, s, d, extent) in enumerate(zip(window.kernel, window.strides, window.dilations, window.extents)):
        count = (x.shape[2 + 2 * a] - extent) // s + 1
        x = np.take(x, np.arange(k)[:, None] * d + arange(count) * s, axis=2 + 2 * a)
    return _kernel_first(x)


def _kernel_first(x: Any) -> Any:
    """Return an array (N, C, kernel, count, kernel, count...) as one (N, C, kernel..., counts...)."""
    return x.transpose(0, 1, *range(2, len(x.shape), 2), *range(3, len(x.shape), 2))


def _inner(window: Window) -> tuple[int, ...]:
    """Return the axes of `_cells` that hold the cells of one window."""
    return tuple(range(2, 2 + len(window.kernel)))


@composite("MaxPool", when=lambda op: len(op.outputs) == 1)
def _max_pool(op: Op, x: Any) -> Any:
    window = _window(op)
    lowest = -np.inf if x.dtype.kind == "f" else np.iinfo(x.dtype).min
    return _cells(x, window, lowest).max(axis=_inner(window))


@composite("AveragePool")
def _average_pool(op: Op, x: Any) -> Any:
    window = _window(op)
    total = _cells(x, window, 0).sum(axis=_inner(window))
    if op["count_include_pad"] or not any(window.pads):
        return total / x.dtype.type(np.prod(window.kernel))
    for a, (k, s, begin) in enumerate(zip(window.kernel, window.strides, window.begins)):
        size, first = x.shape[2 + a], arange(total.shape[2 + a]) * s - begin
        inside = np.minimum(first + k, size) - np.maximum(first, 0)
        total = total / inside.astype(x.dtype).reshape(-1, *(1,) * (len(window.kernel) - a - 1))
    return total


@composite("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(op: Op, x: Any) -> Any:
    axes = tuple(range(2, len(x.shape)))
    return (x.max if op.op == "GlobalMaxPool" else x.mean)(axis=axes, keepdims=True)


@composite("Conv")
def _conv(op: Op, x: Any, weight: Any, bias: Any = None) -> Any:
    return _product(op, _cells(x, _window(op), 0), weight, bias)


def _product(op: Op, cells: Any, weight: Any, bias: Any) -> Any:
    """Return the products of the cells of windows with weights (outputs, channels of a group, kernel...)."""
    group, rank = int(op["group"]), len(weight.shape) - 2
    counts = cells.shape[2 + rank :]
    columns = cells.reshape(cells.shape[0], group, int(np.prod(weight.shape[1:])), -1)
    product = weight.reshape(group, weight.shape[0] // group, -1) @ columns
    product = product.reshape(cells.shape[0], weight.shape[0], *counts)
    return product if bias is None else product + bias.reshape(-1, *(1,) * rank)


@composite("ConvTranspose")
def _conv_transpose(op: Op, x: Any, weight: Any, bias: Any = None) -> Any:
    """Compute a transposed convolution as a convolution with the mirrored kernel: element o reads the input at
    (o + begin - i * dilation) / stride for each i of the kernel where this is an integer."""
    window, group, shape = _window(op), int(op["group"]), op.outputs[0].shape
    n = len(window.kernel)
    for a, (k, s, d, begin) in enumerate(zip(window.kernel, window.strides, window.dilations, window.begins)):
        size = int(x.shape[2 + 2 * a])
        places = np.arange(int(shape[2 + a])) + begin - np.arange(k)[:, None] * d
        valid = (places % s == 0) & (places >= 0) & (places // s < size)
        x = np.take(x, np.clip(places // s, 0, size - 1), axis=2 + 2 * a)
        x = np.where(valid.reshape(*valid.shape, *(1,) * (n - a - 1)), x, x.dtype.type(0))
    first, outputs, *kernel = weight.shape
    swapped = weight.reshape(group, first // group, outputs, *kernel)
    swapped = swapped.transpose(0, 2, 1, *range(3, 3 + n)).reshape(group * outputs, first // group, *kernel)
    return _product(op, _kernel_first(x), swapped, bias)


@composite("LRN")
def _lrn(op: Op, x: Any) -> Any:
    size, one = int(op["size"]), x.dtype.type
    before = (size - 1) // 2
    squares = np.pad(x * x, [(0, 0), (before, size - 1 - before), *[(0, 0)] * (len(x.shape) - 2)])
    near = np.take(squares, np.arange(size)[:, None] + np.arange(x.shape[1]), axis=1).sum(axis=1)
    alpha, beta, bias = (op[n] for n in ("alpha", "beta", "bias"))
    return x / (one(bias) + one(alpha / size) * near) ** one(beta)
