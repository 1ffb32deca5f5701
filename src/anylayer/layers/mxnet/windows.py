"""Convolutions and pooling. Images are (N, C, ...), or (N, ..., C) where the layout says so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import channels_first, extent, pooled_sizes, restored, same_shape
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, INT, INTS, need_weights, operators

_ONE, _TRUE = attribute("int32", 1), attribute("bool", True)
SIZES = {"kernel": INTS, "stride": INTS, "pad": INTS}
_LAYOUT = attribute(Enum("NCHW", "NCW", "NCDHW", "NHWC", "NWC", "NDHWC"), "NCHW", doc="that of the weights, too")
_WINDOW = {**SIZES, "layout": _LAYOUT}
POOL = {
    "pool_type": attribute(Enum("max", "avg", "sum", "lp"), "max"), "global_pool": FLAG,
    "pooling_convention": attribute(Enum("valid", "full"), "valid"), "p_value": attribute("int32", 2),
    "count_include_pad": _TRUE, **_WINDOW,
}  # fmt: skip
_LOWEST = float(np.finfo(np.float32).min)


def _axes(x: Array, values: Sequence[int], default: int, what: str) -> list[int]:
    """Return one number per spatial axis. An empty list stands for the default."""
    shape, count = tuple(x.shape), len(x.shape) - 2
    need(count in (1, 2, 3), f"the input must have 3 to 5 axes, got shape {shape}")
    need(len(values) in (0, count), f"{what} must be {count} numbers for a shape {shape}, got {[*values]}")
    return [*values] or [default] * count


def convolve(
    x: Array, w: Array, bias: Array | None = None, *, kernel: Sequence[int], stride: Sequence[int],
    dilate: Sequence[int], pad: Sequence[int], num_filter: int, num_group: int, no_bias: bool, layout: str,
) -> Array:  # fmt: skip
    x, w = channels_first(x, layout), channels_first(w, layout)
    sizes, group = _axes(x, kernel, 1, "kernel"), max(num_group, 1)
    need_weights(w, (num_filter, x.shape[1] // group, *sizes), bias, num_filter, no_bias)
    how = {"pads": _axes(x, pad, 0, "pad"), "dilations": _axes(x, dilate, 1, "dilate")}
    y = ops.conv(x, w, bias, strides=_axes(x, stride, 1, "stride"), group=num_group, **how)
    return restored(y, layout)


def _deconvolve(
    x: Array, w: Array, bias: Array | None = None, *, kernel: Sequence[int], stride: Sequence[int],
    dilate: Sequence[int], pad: Sequence[int], adj: Sequence[int], target_shape: Sequence[int], num_filter: int,
    num_group: int, no_bias: bool, layout: str,
) -> Array:  # fmt: skip
    x, w = channels_first(x, layout), channels_first(w, layout)
    sizes, steps, gaps = (_axes(x, v, 1, "kernel, stride and dilate") for v in (kernel, stride, dilate))
    need_weights(w, (x.shape[1], num_filter // max(num_group, 1), *sizes), bias, num_filter, no_bias)
    pads, more = _axes(x, pad, 0, "pad"), _axes(x, adj, 0, "adj")
    if any(target_shape):
        target = _axes(x, target_shape, 0, "target_shape")
        rests = [s * (n - 1) + extent(k, d) - t for s, n, k, d, t in zip(steps, x.shape[2:], sizes, gaps, target)]
        need(min(rests) >= 0, f"target_shape {target} is larger than the output without padding")
        pads, more = [(rest + 1) // 2 for rest in rests], [rest % 2 for rest in rests]
    how = {"pads": pads, "dilations": gaps, "output_padding": more}
    return restored(ops.conv_transpose(x, w, bias, strides=steps, group=num_group, **how), layout)


def pool(x: Array, *, layout: str = "NCHW", **how: Any) -> Array:
    return restored(_pool_first(channels_first(x, layout), **how), layout)


def _pool_first(
    x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], pool_type: str, global_pool: bool,
    pooling_convention: str, p_value: int, count_include_pad: bool, lowest: float = _LOWEST,
) -> Array:  # fmt: skip
    if global_pool:
        kernel, stride, pad = x.shape[2:], (), ()
    need(kernel, "parameter 'kernel' is missing")
    sizes, steps, pads = _axes(x, kernel, 1, "kernel"), _axes(x, stride, 1, "stride"), _axes(x, pad, 0, "pad")
    full = pooling_convention == "full"
    counts = pooled_sizes(x.shape[2:], sizes, steps, pads, ceil=full, drops=False)
    if pool_type in ("max", "avg"):
        if pool_type == "max":
            y = ops.max_pool(x, sizes, strides=steps, pads=pads, ceil_mode=full)
        else:
            include = count_include_pad
            y = ops.average_pool(x, sizes, strides=steps, pads=pads, ceil_mode=full, count_include_pad=include)
        if same_shape(counts, y.shape[2:]):
            return y
        outside = [(0, 0), (0, 0), *((0, count - d) for count, d in zip(counts, y.shape[2:]))]
        return np.pad(y, outside, constant_values=lowest if pool_type == "max" else 0)
    p = p_value if pool_type == "lp" else 1
    need(p in (1, 2, 3), f"p_value must be 1, 2 or 3, got {p}")
    ends = [(c - 1) * s + k - n - b for c, s, k, n, b in zip(counts, steps, sizes, x.shape[2:], pads)]
    whole = np.pad(x**p, [(0, 0), (0, 0), *((b, max(e, 0)) for b, e in zip(pads, ends))])
    total = ops.average_pool(whole, sizes, strides=steps) * x.dtype.type(math.prod(sizes))
    root: Array = np.sqrt(total) if p == 2 else np.sign(total) * np.abs(total) ** x.dtype.type(1 / p)
    return total if p == 1 else root


def _pool_v1(
    x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], pool_type: str, global_pool: bool,
    pooling_convention: str,
) -> Array:  # fmt: skip
    need(not (global_pool and any(pad)), f"global_pool with pad={[*pad]} is not supported")
    whole = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in _axes(x, pad, 0, "pad"))])
    kind = "sum" if pool_type == "avg" else pool_type
    y = _pool_first(whole, kernel, stride, (), kind, global_pool, pooling_convention, 1, True, -np.inf)
    cells = math.prod(x.shape[2:] if global_pool else kernel)
    return y / cells if pool_type == "avg" else y


operators(
    {
        "Convolution Convolution_v1": row("Convolve images with weights (M, C / groups, ...), and add a bias.",
            convolve, "nn/convolution.cc",
            "(N, C, ...) to (N, M, ...), with 1 to 3 spatial axes. Each size becomes floor((n + 2 * pad - extent) "
            "/ stride) + 1. no_bias says that there is no third input, the bias (M,).",
            num_filter=INT, num_group=_ONE, dilate=INTS, no_bias=FLAG, **_WINDOW),
        "Deconvolution": row("Compute the transposed convolution with weights (C, M / groups, ...), plus a bias.",
            _deconvolve, "nn/deconvolution.cc",
            "(N, C, ...) to (N, M, ...). Each size becomes stride * (n - 1) + extent - 2 * pad + adj, or that of "
            "target_shape, which replaces pad and adj.",
            num_filter=INT, num_group=_ONE, dilate=INTS, adj=INTS, target_shape=INTS, no_bias=_TRUE, **_WINDOW),
        "Pooling_v1": row("Compute the maximum, mean or sum of each window.", _pool_v1, "pooling_v1.cc",
            "As Pooling, but a maximum counts padded cells as 0, and a mean divides by all cells of the kernel. A "
            "window beyond the padding has the maximum -inf, and otherwise 0.",
            pool_type=attribute(Enum("max", "avg", "sum"), "max"), global_pool=FLAG,
            pooling_convention=attribute(Enum("valid", "full"), "valid"), **SIZES),
        "Pooling": row("Compute the maximum, mean, sum or p-norm of each window.", pool, "nn/pooling.cc",
            "(N, C, ...) to (N, C, ...'), with 1 to 3 spatial axes. The number of windows is rounded down, and up "
            "with pooling_convention full. A mean counts padded cells with count_include_pad, but none beyond the "
            "padding. A window without any cell has the maximum -3.4e38, and otherwise 0.",
            **POOL),
    },
)  # fmt: skip
