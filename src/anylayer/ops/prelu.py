"""The parametric ReLU."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def prelu(x: Array, slope: Array) -> Array:
    """Return x where x > 0, and slope * x elsewhere. `slope` broadcasts to `x` (ONNX PRelu-16).

    For one slope per channel of (N, C, H, W), `slope` has the shape (C, 1, 1). Raises LayerError if `slope` does
    not broadcast to `x`.
    """
    _check(x, slope)
    return np.where(x > 0, x, x * slope)


def _check(x: Array, slope: Array) -> None:
    sizes = list(zip(reversed(slope.shape), reversed(x.shape)))
    fits = len(slope.shape) <= len(x.shape) and all(s in (1, n) for s, n in sizes)
    need(fits, f"slope of shape {tuple(slope.shape)} does not broadcast to {tuple(x.shape)}")


@prelu.form
def _(x: Array, slope: Array) -> Array:
    _check(x, slope)
    missing = len(x.shape) - len(slope.shape)
    if missing:  # engines disagree about slopes of another rank
        slope = slope.reshape(*(1,) * missing, *slope.shape)
    return record("PRelu", [x, slope], x.shape, x.dtype)
