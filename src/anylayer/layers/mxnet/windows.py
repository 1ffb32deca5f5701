"""Convolutions, pooling and resizing. Images are (N, C, H, W)."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import pooled_sizes, same_shape
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, INT, INTS, operators

_LAYOUT = {"layout": attribute(Enum("NCHW", "NCW", "NCDHW"), "NCHW")}
_WINDOW = {"kernel": INTS, "stride": INTS, "pad": INTS}

_POOL = {
    "pool_type": attribute(Enum("max", "avg", "sum", "lp"), "max"), "global_pool": FLAG,
    "pooling_convention": attribute(Enum("valid", "full"), "valid"), **_WINDOW,
}  # fmt: skip
_V1 = {**_POOL, "pool_type": attribute(Enum("max", "avg", "sum"), "max")}


def _axes(x: Array, values: Sequence[int], default: int, what: str) -> list[int]:
    """Return one number per spatial axis. An empty list stands for the default."""
    count = len(x.shape) - 2
    need(
        len(values) in (0, count), f"{what} must be {count} numbers for an input {tuple(x.shape)}, got {[*values]}"
    )
    return [*values] or [default] * count


def _convolve(
    x: Array, w: Array, bias: Array | None = None, *, kernel: Sequence[int], stride: Sequence[int],
    dilate: Sequence[int], pad: Sequence[int], num_filter: int, num_group: int, no_bias: bool, layout: str,
) -> Array:  # fmt: skip
    need(len(x.shape) in (3, 4, 5), f"the input must have 3 to 5 axes, got shape {tuple(x.shape)}")
    need(num_group >= 1, f"num_group must be at least 1, got {num_group}")
    need(no_bias == (bias is None), f"no_bias is {no_bias}, but there are {2 if bias is None else 3} inputs")
    shape = (num_filter, x.shape[1] // num_group, *_axes(x, kernel, 1, "kernel"))
    need(tuple(w.shape) == shape, f"the weights must be of shape {shape}, got {tuple(w.shape)}")
    return ops.conv(
        x, w, bias, strides=_axes(x, stride, 1, "stride"), pads=_axes(x, pad, 0, "pad"),
        dilations=_axes(x, dilate, 1, "dilate"), group=num_group,
    )  # fmt: skip


def _pool(
    x: Array, kernel: Sequence[int], stride: Sequence[int], pad: Sequence[int], pool_type: str, global_pool: bool,
    pooling_convention: str, p_value: int, count_include_pad: bool, layout: str, lowest: float,
) -> Array:  # fmt: skip
    need(len(x.shape) in (3, 4, 5), f"the input must have 3 to 5 axes, got shape {tuple(x.shape)}")
    if global_pool:
        kernel, stride, pad = x.shape[2:], (), ()
    need(kernel, "parameter 'kernel' is missing")
    sizes, steps, pads = _axes(x, kernel, 1, "kernel"), _axes(x, stride, 1, "stride"), _axes(x, pad, 0, "pad")
    full = pooling_convention == "full"
    counts = pooled_sizes(x.shape[2:], sizes, steps, pads, ceil=full, drops=False)
    if pool_type in ("max", "avg"):
        how: dict[str, bool] = {} if pool_type == "max" else {"count_include_pad": count_include_pad}
        pool = ops.max_pool if pool_type == "max" else ops.average_pool
        y = pool(x, sizes, strides=steps, pads=pads, ceil_mode=full, **how)
        if same_shape(counts, y.shape[2:]):
            return y
        outside = [(0, 0), (0, 0), *((0, count - d) for count, d in zip(counts, y.shape[2:]))]
        return np.pad(y, outside, constant_values=lowest if pool_type == "max" else 0)
    need(p_value in (1, 2, 3), f"p_value must be 1, 2 or 3, got {p_value}")
    p = p_value if pool_type == "lp" else 1
    ends = [(c - 1) * s + k - n - b for c, s, k, n, b in zip(counts, steps, sizes, x.shape[2:], pads)]
    whole = np.pad(x**p, [(0, 0), (0, 0), *((b, max(e, 0)) for b, e in zip(pads, ends))])
    total = ops.average_pool(whole, sizes, strides=steps) * x.dtype.type(math.prod(sizes))
    root: Array = np.sqrt(total) if p == 2 else np.sign(total) * np.abs(total) ** x.dtype.type(1 / p)
    return total if p == 1 else root


def _pool_v1(
    x: Array, kernel: Sequence[int], pad: Sequence[int], pool_type: str, global_pool: bool, **how: Any
) -> Array:
    if global_pool:
        kernel, pad = x.shape[2:], ()
    pads = [(0, 0), (0, 0), *((p, p) for p in _axes(x, pad, 0, "pad"))]
    kind = "max" if pool_type == "max" else "sum"
    how |= {"p_value": 1, "count_include_pad": True, "layout": "NCHW", "lowest": -math.inf}
    y = _pool(np.pad(x, pads), kernel, pad=(), pool_type=kind, global_pool=global_pool, **how)
    return y / x.dtype.type(math.prod(kernel)) if pool_type == "avg" else y


operators(
    {
        "Convolution Convolution_v1": row("Convolve images with weights (M, C / groups, ...), and add a bias.",
            _convolve, "nn/convolution.cc",
            "(N, C, ...) to (N, M, ...), with 1 to 3 spatial axes. Each size becomes floor((n + 2 * pad - extent) "
            "/ stride) + 1. no_bias says that there is no third input, the bias (M,).",
            num_filter=INT, num_group=attribute("int32", 1), dilate=INTS, no_bias=FLAG,
            **_WINDOW, **_LAYOUT),
        "Pooling": row("Compute the maximum, mean, sum or p-norm of each window.",
            functools.partial(_pool, lowest=float(np.finfo(np.float32).min)), "nn/pooling.cc",
            "(N, C, ...) to (N, C, ...'), with 1 to 3 spatial axes. The number of windows is rounded down, and up "
            "with pooling_convention full. A mean counts padded cells with count_include_pad, but none beyond the "
            "padding. A window without any cell has the maximum -3.4e38, and otherwise 0.",
            p_value=attribute("int32", 2), count_include_pad=attribute("bool", True), **_POOL, **_LAYOUT),
        "Pooling_v1": row("Compute the maximum, mean or sum of each window of a map padded with zeros.", _pool_v1,
            "pooling_v1.cc",
            "As Pooling, but padded zeros count in a maximum, too, and a sum is divided by the kernel's size.",
            **_V1),
    },
)  # fmt: skip
