"""Batch normalisation with known statistics."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def batch_normalization(x: Any, scale: Any, bias: Any, mean: Any, var: Any, *, epsilon: float = 1e-5) -> Any:
    """(x - mean) / sqrt(var + epsilon) * scale + bias by channel of `x` (N, C, ...), ONNX BatchNormalization-15.

    `scale`, `bias`, `mean` and `var` are of shape (C,). Raises LayerError where they are not.
    """
    _check(x, scale, bias, mean, var)
    factor = scale / np.sqrt(var + np.asarray(epsilon, var.dtype))
    wide = (-1, *(1,) * (len(x.shape) - 2))
    return (x - mean.reshape(wide)) * factor.reshape(wide) + bias.reshape(wide)


def _check(x: Any, *statistics: Any) -> None:
    need(len(x.shape) >= 2, f"batch_normalization needs an input (N, C, ...), got shape {tuple(x.shape)}")
    for name, value in zip(("scale", "bias", "mean", "var"), statistics):
        need(
            tuple(value.shape) == (x.shape[1],),
            f"{name} must be of shape ({x.shape[1]},), one number a channel, got {tuple(value.shape)}",
        )


@batch_normalization.form
def _(x: Any, scale: Any, bias: Any, mean: Any, var: Any, *, epsilon: float = 1e-5) -> Any:
    _check(x, scale, bias, mean, var)
    return record("BatchNormalization", [x, scale, bias, mean, var], x.shape, x.dtype, epsilon=float(epsilon))
