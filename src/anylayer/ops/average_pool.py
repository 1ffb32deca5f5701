"""Average pooling."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import chain
from typing import Any, cast

import numpy as np

from anylayer.graph.symbolic import is_symbolic
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._pooling import PoolingPlan, pooling, reduce_open_windows, reduce_windows
from anylayer.ops._spatial import Ints, flat_pads, padded, with_static_pads
from anylayer.ops.conv import conv
from anylayer.tracing import record


@operator
def average_pool(
    x: Array,
    kernel: Ints,
    *,
    strides: Ints = 1,
    pads: Ints = 0,
    dilations: Ints = 1,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Array:
    """Return the mean of each window of `x` (N, C, ...), in the dtype of `x` (ONNX AveragePool-19).

    The sizes and the dilations are those of `max_pool`. The divisor of a window is the number of its cells inside
    the map, plus those in `pads` with `count_include_pad`. Cells that only `ceil_mode` adds are never counted.
    Raises LayerError where no window fits or one would lie completely in the padding.
    """
    plan = pooling(x, kernel, strides, pads, dilations, ceil_mode, "average_pool")
    y = reduce_windows(padded(x, plan.full_pads), plan, np.add)
    y /= _divisors(x.shape[2:], plan, count_include_pad).astype(x.dtype)
    return y


def _divisors(sizes: Sequence[int], plan: PoolingPlan, count_include_pad: bool) -> Array:
    """Return the number of cells in the mean of each window, in a shape that broadcasts to (N, C, *counts)."""
    total: Array = np.ones((1,) * len(sizes), np.int64)
    for axis, (n, k, s, d, (begin, end), count) in enumerate(
        zip(sizes, plan.kernel, plan.strides, plan.dilations, plan.pads, plan.counts)
    ):
        first = np.arange(count) * s - begin
        low, high = (-begin, n + end) if count_include_pad else (0, n)
        skipped = np.maximum(low - first + (d - 1), 0) // d  # cells before the first one that counts
        cells = np.minimum((high - first + (d - 1)) // d, k) - skipped
        total = total * cells.reshape(-1, *(1,) * (len(sizes) - axis - 1))
    return total


@average_pool.form
def _(x: Array, kernel: Ints, *, count_include_pad: bool, **how: Any) -> Array:
    """Record AveragePool with explicit pads, because engines disagree on the rounding mode.

    If a window both counts padding and extends past the end, the mean over the whole kernel is multiplied by a
    constant that corrects the divisor. With dilations, record a convolution with ones.
    """
    plan = pooling(x, kernel, what="average_pool", **how)
    shape = (*x.shape[:2], *plan.counts)
    reduced = reduce_open_windows(x, plan, np.mean)
    if reduced is not None:
        return cast(Array, reduced)
    if {*plan.dilations} != {1}:
        return _dilated_average(x, plan, count_include_pad)
    if any(map(is_symbolic, chain(*plan.full_pads))):
        return _with_symbolic_pads(x, plan, count_include_pad)
    include = count_include_pad and any(b or e for b, e in plan.pads)
    y = record(
        "AveragePool",
        [x],
        shape,
        x.dtype,
        kernel_shape=list(plan.kernel),
        strides=list(plan.strides),
        pads=flat_pads(plan.full_pads),
        count_include_pad=int(include),
    )
    if include and plan.full_pads != plan.pads:
        factor = np.prod(plan.kernel) / _divisors(x.shape[2:], plan, True)
        y = record("Mul", [y, factor.astype(x.dtype)], shape, x.dtype)
    return y


def _dilated_average(x: Array, plan: PoolingPlan, count_include_pad: bool) -> Array:
    """Record the sum over each window as a convolution of every channel with ones, divided by the cell counts."""
    sizes = x.shape[2:]
    planes, pads = with_static_pads(x.reshape(math.prod(x.shape[:2]), 1, *sizes), plan.full_pads)
    ones = np.ones((1, 1, *plan.kernel), x.dtype)
    sums = conv(planes, ones, strides=plan.strides, pads=flat_pads(pads), dilations=plan.dilations)
    return sums.reshape(*x.shape[:2], *plan.counts) / _divisors(sizes, plan, count_include_pad).astype(x.dtype)


def _with_symbolic_pads(x: Array, plan: PoolingPlan, count_include_pad: bool) -> Array:
    """Record the mean over the whole kernel of explicitly padded data, and correct its divisor."""
    shape = (*x.shape[:2], *plan.counts)
    padded_x, _ = with_static_pads(x, plan.full_pads)
    means = record(
        "AveragePool", [padded_x], shape, x.dtype, kernel_shape=list(plan.kernel), strides=list(plan.strides)
    )
    factor = math.prod(plan.kernel) / _divisors(x.shape[2:], plan, count_include_pad)
    return means * factor.astype(x.dtype)
