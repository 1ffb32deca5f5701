"""Batch normalization with given statistics."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need, need_shape
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def batch_normalization(
    x: Array, scale: Array, bias: Array, mean: Array, var: Array, *, epsilon: float = 1e-5
) -> Array:
    """Return (x - mean) / sqrt(var + epsilon) * scale + bias, per channel of `x` (N, C, ...).

    The result has the dtype of `x`, also where that is float16 and the statistics are float32. `scale`, `bias`,
    `mean` and `var` have the shape (C,) (ONNX BatchNormalization-15). Raises LayerError for other shapes.
    """
    _check(x, scale, bias, mean, var)
    factor = scale / np.sqrt(var + np.asarray(epsilon, var.dtype))
    wide = (-1, *(1,) * (len(x.shape) - 2))
    result: Array = (x - mean.reshape(wide)) * factor.reshape(wide) + bias.reshape(wide)
    return result.astype(x.dtype, copy=False)


def _check(x: Array, *statistics: Array) -> None:
    need(len(x.shape) >= 2, f"batch_normalization needs an input (N, C, ...), got shape {tuple(x.shape)}")
    for name, value in zip(("scale", "bias", "mean", "var"), statistics):
        need_shape(value, (x.shape[1],), name, about=", one number per channel")


@batch_normalization.form
def _(x: Array, scale: Array, bias: Array, mean: Array, var: Array, *, epsilon: float = 1e-5) -> Array:
    _check(x, scale, bias, mean, var)
    return record("BatchNormalization", [x, scale, bias, mean, var], x.shape, x.dtype, epsilon=float(epsilon))
