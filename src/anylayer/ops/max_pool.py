"""Max pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._operator import operator
from anylayer.ops._pooling import Pooling, combined, pooling
from anylayer.ops._spatial import flat_pads, padded
from anylayer.tracing import record


@operator
def max_pool(
    x: Any, kernel: Any, *, strides: Any = 1, pads: Any = 0, dilations: Any = 1, ceil_mode: bool = False
) -> Any:
    """The largest value in each window of `x` (N, C, ...); padding never wins (ONNX MaxPool-12).

    Each spatial axis comes out as floor((n + pads - kernel) / stride) + 1, or ceil with `ceil_mode`, where a
    last window that would start in the end padding (or behind the map) is left out.
    Raises LayerError where the kernel does not fit or a window would lie wholly in the padding.
    """
    plan = pooling(x, kernel, strides, pads, dilations, ceil_mode, "max_pool")
    return combined(padded(x, plan.grown, lowest(x.dtype)), plan, np.maximum)


def lowest(dtype: np.dtype[Any]) -> Any:
    """The value no other of `dtype` is below."""
    return -np.inf if dtype.kind == "f" else np.iinfo(dtype).min


def recorded(x: Any, plan: Pooling) -> Any:
    """MaxPool over these windows, without a rounding mode."""
    pads = plan.grown
    if any(max(pair) >= k for pair, k in zip(pads, plan.kernel)):  # engines compare with the undilated kernel
        x, pads = widened(x, plan), ((0, 0),) * len(pads)
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


def widened(x: Any, plan: Pooling) -> Any:
    """`x` padded by the lowest value, so that every window lies inside."""
    wide = (*x.shape[:2], *(n + b + e for n, (b, e) in zip(x.shape[2:], plan.grown)))
    if wide == tuple(x.shape):
        return x
    pads = np.array([0, 0, *(b for b, _ in plan.grown), 0, 0, *(e for _, e in plan.grown)])
    return record("Pad", [x, pads, np.array(lowest(x.dtype), x.dtype)], wide, x.dtype)


@max_pool.form
def _(x: Any, kernel: Any, *, strides: Any = 1, pads: Any = 0, dilations: Any = 1, ceil_mode: bool = False) -> Any:
    return recorded(x, pooling(x, kernel, strides, pads, dilations, ceil_mode, "max_pool"))
