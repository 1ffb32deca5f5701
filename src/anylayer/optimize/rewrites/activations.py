"""Rectifiers in several operators become Relu, LeakyRelu, PRelu and Clip, which engines fuse."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.network import Array, Function
from anylayer.optimize.patterns import Constant, rewrite
from anylayer.tracing import record

_MAX = "x 96x55x55, us: ONNX Runtime 59 -> 43, OpenVINO 85 -> 86; fuses with the convolution before it"
_WHERE = "x 96x55x55, us: ONNX Runtime 150 -> 40, OpenVINO 86 -> 77; one slope per channel 182 -> 128, 111 -> 99"
_CLIP = "x 96x55x55, us: ONNX Runtime 85 -> 32, OpenVINO 77 -> 81"


def _clip(x: Array, low: float, high: float) -> Array:
    return np.clip(x, np.float32(low), np.float32(high))


@rewrite(ops.relu, figure=_MAX)
def _relu(x: Array) -> Array:
    """Compute max(x, 0) by Relu."""
    return np.maximum(x, 0)


@rewrite(ops.leaky_relu, when=lambda c: c <= 1, figure=_MAX)
def _leaky_relu(x: Array, c: float) -> Array:
    """Compute max(x, c * x) with c <= 1 by LeakyRelu."""
    return np.maximum(x, c * x)


def _selections(below: Function) -> list[Function]:
    """Return the other ways to write np.where(x > 0, x, below(x, ...)); 0 may belong to either side."""
    return [
        lambda x, *others: np.where(x >= 0, x, below(x, *others)),
        lambda x, *others: np.where(x < 0, below(x, *others), x),
        lambda x, *others: np.where(x <= 0, below(x, *others), x),
    ]


@rewrite(ops.relu, also=_selections(lambda x: np.float32(0)), figure=_WHERE)
def _selected_relu(x: Array) -> Array:
    """Compute where(x > 0, x, 0) by Relu."""
    return np.where(x > 0, x, np.float32(0))


@rewrite(ops.leaky_relu, also=_selections(lambda x, c: c * x), figure=_WHERE)
def _selected_leaky_relu(x: Array, c: float) -> Array:
    """Compute where(x > 0, x, c * x) by LeakyRelu."""
    return np.where(x > 0, x, c * x)


@rewrite(ops.prelu, also=_selections(lambda x, slopes: x * slopes), figure=_WHERE)
def _selected_slopes(x: Array, slopes: Constant) -> Array:
    """Compute where(x > 0, x, x * slopes) with constant slopes by PRelu."""
    return np.where(x > 0, x, x * slopes)


@rewrite(ops.prelu, stage="raise")
def _relu_and_rest(x: Array, slopes: Constant) -> Any:
    """Compute relu(x) + (x - relu(x)) * slopes with constant slopes by PRelu."""
    positive = ops.relu(x)
    return positive + (x - positive) * slopes


@rewrite(
    ops.relu, also=[lambda x: x * (x >= 0)], figure="x 96x55x55, us: ONNX Runtime 111 -> 43, OpenVINO 93 -> 86"
)
def _masked(x: Array) -> Array:
    """Compute x * (x > 0) by Relu."""
    return x * (x > 0)


@rewrite(ops.leaky_relu, figure="x 96x55x55, us: ONNX Runtime 142 -> 40, OpenVINO 78 -> 77")
def _relu_and_minimum(x: Array, c: float) -> Array:
    """Compute relu(x) + c * min(x, 0) by LeakyRelu."""
    return ops.relu(x) + c * np.minimum(x, 0)


@rewrite(ops.leaky_relu, figure="x 96x55x55, us: ONNX Runtime 142 -> 40")
def _two_relus(x: Array, c: float) -> Array:
    """Compute relu(x) - c * relu(-x) by LeakyRelu."""
    return ops.relu(x) - c * ops.relu(-x)


@rewrite(_clip, when=lambda low, high: low <= high, figure=_CLIP)
def _upper_limit(x: Array, low: float, high: float) -> Array:
    """Compute min(max(x, low), high) with low <= high by Clip."""
    return np.minimum(np.maximum(x, low), high)


@rewrite(lambda x, high: _clip(x, 0, high), when=lambda high: high >= 0, figure=_CLIP)
def _upper_limit_of_relu(x: Array, high: float) -> Any:
    """Compute min(relu(x), high) with high >= 0 by Clip."""
    return np.minimum(ops.relu(x), high)


@rewrite(_clip, when=lambda low, high: low <= high, figure=_CLIP)
def _lower_limit(x: Array, low: float, high: float) -> Array:
    """Compute max(min(x, high), low) with low <= high by Clip."""
    return np.maximum(np.minimum(x, high), low)


@rewrite(ops.softplus, kind="must", targets=("caffe",), stage="raise")
def _softplus(x: Array) -> Any:
    """Compute relu(x) + log(1 + exp(-abs(x))) by Softplus, which Caffe has as BNLL."""
    return ops.relu(x) + np.log(np.exp(-abs(x)) + 1)


def _swished(x: Array) -> Array:
    return record("Swish", [x], x.shape, x.dtype)


@rewrite(_swished, kind="must", targets=("caffe",), stage="raise")
def _swish(x: Array) -> Any:
    """Compute x * sigmoid(x) by Swish, which is newer than the graph's opset."""
    return x * ops.sigmoid(x)
