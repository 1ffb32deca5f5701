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


def attributes(plan: Pooling) -> dict[str, Any]:
    """The attributes of ONNX MaxPool for these windows, without a rounding mode."""
    return {
        "kernel_shape": list(plan.kernel),
        "strides": list(plan.strides),
        "pads": flat_pads(plan.grown),
        "dilations": list(plan.dilations) if set(plan.dilations) != {1} else None,
    }


@max_pool.form
def _(x: Any, kernel: Any, *, strides: Any = 1, pads: Any = 0, dilations: Any = 1, ceil_mode: bool = False) -> Any:
    plan = pooling(x, kernel, strides, pads, dilations, ceil_mode, "max_pool")
    return record("MaxPool", [x], (*x.shape[:2], *plan.counts), x.dtype, **attributes(plan))
