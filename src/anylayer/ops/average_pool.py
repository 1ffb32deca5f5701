"""Average pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.ops._pooling import Pooling, combined, pooling
from anylayer.ops._spatial import flat_pads, padded
from anylayer.tracing import record


@operator
def average_pool(
    x: Any,
    kernel: Any,
    *,
    strides: Any = 1,
    pads: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Any:
    """The mean of each window of `x` (N, C, ...), sized as by `max_pool` (ONNX AveragePool-19).

    The divisor counts the cells of the map, and those of `pads` with `count_include_pad`; never those that
    `ceil_mode` makes a window hang over.
    """
    plan = pooling(x, kernel, strides, pads, 1, ceil_mode, "average_pool")
    y = combined(padded(x, plan.grown), plan, np.add)
    y /= _divisors(x.shape[2:], plan, count_include_pad).astype(x.dtype)
    return y


def _divisors(sizes: Any, plan: Pooling, count_include_pad: bool) -> Any:
    """How many cells each window counts."""
    total: Any = np.ones((1,) * len(sizes), np.int64)
    for axis, (n, k, s, (begin, end), count) in enumerate(
        zip(sizes, plan.kernel, plan.strides, plan.pairs, plan.counts)
    ):
        first = np.arange(count) * s - begin
        low, high = (-begin, n + end) if count_include_pad else (0, n)
        cells = np.minimum(first + k, high) - np.maximum(first, low)
        total = total * cells.reshape(-1, *(1,) * (len(sizes) - axis - 1))
    return total


@average_pool.form
def _(
    x: Any,
    kernel: Any,
    *,
    strides: Any = 1,
    pads: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = False,
) -> Any:
    """The rounding mode is spelled out as pads (engines disagree on it). Where a window both counts padding
    and hangs over, the mean over the whole kernel is corrected by a constant."""
    plan = pooling(x, kernel, strides, pads, 1, ceil_mode, "average_pool")
    shape = (*x.shape[:2], *plan.counts)
    include = count_include_pad and any(b or e for b, e in plan.pairs)
    y = record(
        "AveragePool",
        [x],
        shape,
        x.dtype,
        kernel_shape=list(plan.kernel),
        strides=list(plan.strides),
        pads=flat_pads(plan.grown),
        count_include_pad=int(include),
    )
    if include and plan.grown != plan.pairs:
        factor = np.prod(plan.kernel) / _divisors(x.shape[2:], plan, True)
        y = record("Mul", [y, factor.astype(x.dtype)], shape, x.dtype)
    return y
