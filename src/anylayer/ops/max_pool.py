"""Max pooling."""

from __future__ import annotations

from itertools import chain
from typing import Any, cast

import numpy as np

from anylayer.graph.symbolic import is_symbolic
from anylayer.network import Array, DType
from anylayer.ops._operator import operator
from anylayer.ops._pooling import PoolingPlan, pooling, reduce_open_windows, reduce_windows
from anylayer.ops._spatial import Ints, flat_pads, padded
from anylayer.tracing import primitives, record


@operator
def max_pool(
    x: Array, kernel: Ints, *, strides: Ints = 1, pads: Ints = 0, dilations: Ints = 1, ceil_mode: bool = False
) -> Array:
    """Return the maximum of each window of `x` (N, C, ...), in the dtype of `x` (ONNX MaxPool-12).

    Padding is never the maximum. Each spatial size becomes floor((n + pads - ((kernel - 1) * dilation + 1)) /
    stride) + 1, or ceil instead of floor with `ceil_mode`, which leaves out a last window that would start in the
    end padding or past it. Raises LayerError where no window fits or one would lie completely in the
    padding.
    """
    plan = pooling(x, kernel, strides, pads, dilations, ceil_mode, "max_pool")
    return reduce_windows(padded(x, plan.full_pads, lowest(x.dtype)), plan, np.maximum)


def lowest(dtype: DType) -> float:
    """Return the least value of `dtype`."""
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def record_max_pool(x: Array, plan: PoolingPlan) -> Array:
    """Record MaxPool over the windows of `plan`, without a rounding mode."""
    reduced = reduce_open_windows(x, plan, np.max)
    if reduced is not None:
        return cast(Array, reduced)
    pads = plan.full_pads
    # engines refuse pads of the size of the undilated kernel
    if any(map(is_symbolic, chain(*pads))) or any(max(pair) >= k for pair, k in zip(pads, plan.kernel)):
        x, pads = pad_with_lowest(x, plan), ((0, 0),) * len(pads)
    return record(
        "MaxPool",
        [x],
        (*x.shape[:2], *plan.counts),
        x.dtype,
        kernel_shape=list(plan.kernel),
        strides=list(plan.strides),
        pads=flat_pads(pads),
        dilations=list(plan.dilations) if set(plan.dilations) != {1} else None,
    )


def pad_with_lowest(x: Array, plan: PoolingPlan) -> Array:
    """Return `x` padded with the least value of its dtype, so that every window lies inside."""
    before, after = zip(*plan.full_pads)
    return primitives.pad(x, [0, 0, *before], [0, 0, *after], lowest(x.dtype))


@max_pool.form
def _(x: Array, kernel: Ints, **how: Any) -> Array:
    return record_max_pool(x, pooling(x, kernel, what="max_pool", **how))
