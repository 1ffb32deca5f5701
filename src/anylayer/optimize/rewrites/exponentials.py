"""Expressions of exp and tanh become single operators, where the engine computes those faster."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.network import Array
from anylayer.optimize.patterns import rewrite
from anylayer.tracing import record

_ORT = ("onnxruntime",)
_SIGMOID = (
    "x 96x55x55, us: 1 / (1 + exp(-x)) 181 -> 72, x / (1 + exp(-x)) 121 -> 61; OpenVINO 151 -> 194: not used there"
)
_HARD_SIGMOID = "x 96x55x55, us: x * clip(x + 3, 0, 6) / 6 175 -> 101"


@rewrite(ops.sigmoid, targets=("dv", "pytorch"), kind="must", stage="raise")
@rewrite(ops.sigmoid, targets=_ORT, kind="faster", figure=_SIGMOID)
def _sigmoid(x: Array) -> Array:
    """Compute 1 / (1 + exp(-x)) by Sigmoid, in float32; other dtypes keep these operators."""
    return 1 / (1 + np.exp(-x))


@rewrite(lambda x, y: y * ops.sigmoid(x), targets=_ORT, kind="faster", figure=_SIGMOID)
def _quotient_by_exponential(x: Array, y: Array) -> Any:
    """Compute y / (1 + exp(-x)) by y * Sigmoid(x)."""
    return y / (1 + np.exp(-x))


@rewrite(ops.sigmoid, targets=_ORT, kind="faster", figure="x 96x55x55, us: exp(x) / (1 + exp(x)) 181 -> 72")
def _quotient_of_exponentials(x: Array) -> Any:
    """Compute exp(x) / (1 + exp(x)) by Sigmoid."""
    return np.exp(x) / (1 + np.exp(x))


@rewrite(ops.sigmoid, targets=_ORT, kind="faster", figure="x 96x55x55, us: 99 -> 60")
def _sigmoid_of_tanh(x: Array) -> Array:
    """Compute (tanh(x / 2) + 1) / 2 by Sigmoid."""
    return (np.tanh(x * np.float32(0.5)) + 1) * np.float32(0.5)


@rewrite(np.tanh, targets=_ORT, kind="faster", figure="x 96x55x55, us: 184 -> 93")
def _tanh(x: Array) -> Any:
    """Compute (exp(x) - exp(-x)) / (exp(x) + exp(-x)) by Tanh."""
    return (np.exp(x) - np.exp(-x)) / (np.exp(x) + np.exp(-x))


def _from_zero_to(limit: float, x: Array) -> Array:
    return record("Clip", [x, np.float32(0), limit], x.shape, x.dtype)


def _is_one(shift: float, limit: float, scale: float) -> bool:
    return abs(limit * scale - 1) <= 1e-6


@rewrite(
    lambda x, shift, limit, scale: ops.hard_sigmoid(x, scale, shift * scale),
    when=_is_one,
    targets=_ORT,
    kind="faster",
    figure=_HARD_SIGMOID,
)
def _hard_sigmoid(x: Array, shift: float, limit: float, scale: float) -> Array:
    """Compute clip(x + shift, 0, limit) / limit by HardSigmoid."""
    return _from_zero_to(limit, x + shift) * scale


@rewrite(
    lambda x, y, shift, limit, scale: y * ops.hard_sigmoid(x, scale, shift * scale),
    when=_is_one,
    targets=_ORT,
    kind="faster",
    figure=_HARD_SIGMOID,
)
def _hard_swish(x: Array, y: Array, shift: float, limit: float, scale: float) -> Array:
    """Compute y * clip(x + shift, 0, limit) / limit by y * HardSigmoid(x)."""
    return y * _from_zero_to(limit, x + shift) * scale


def _mish_ratio(x: Array) -> Any:
    power = np.exp(np.minimum(x, 20))
    over = power * (power + 2)
    return over / (over + 2)


@rewrite(
    _mish_ratio,
    also=[lambda x: np.tanh(np.log1p(np.exp(x))), lambda x: np.tanh(ops.softplus(x))],
    targets=("onnxruntime", "openvino"),
    kind="faster",
    stage="raise",
    figure="x * tanh(log(1 + exp(x))), x 96x55x55, us: ONNX Runtime 433 -> 305, OpenVINO 510 -> 174",
)
def _mish(x: Array) -> Any:
    """Compute tanh(log(1 + e)) with e = exp(x) by n / (n + 2) with n = e * (e + 2), which is 1 from x = 20 on."""
    return np.tanh(np.log(1 + np.exp(x)))
