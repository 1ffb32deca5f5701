"""Operators that a target computes slowly, wrongly or not at all are replaced by their parts.

Layers record an operator whole. The rules of this file decide for each target which operators stay whole. Where a
rule is for "loops", the target has no loops of its own for the operator.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.graph.ir import Op
from anylayer.graph.sizes import is_one
from anylayer.network import Array
from anylayer.optimize.rules import F4, formula
from anylayer.tracing import record

_STAGE = "lower"


def _is_inner(o: Op) -> bool:
    """Return whether elements follow the axis of an operator."""
    shape = o.outputs[0].shape
    return not all(map(is_one, shape[int(o["axis"]) % len(shape) + 1 :]))


def _has_no_kernel(o: Op) -> bool:
    return o.outputs[0].dtype != F4


def _has_computed_slopes(o: Op) -> bool:
    return o.first.const is not None or o.inputs[1] is None or o.inputs[1].const is None


@formula("PRelu", targets=("loops", "ncnn"), stage=_STAGE)
@formula("PRelu", when=_has_computed_slopes, targets=("caffe",), stage=_STAGE)
@formula(
    "PRelu",
    when=lambda o: _has_computed_slopes(o) or _has_no_kernel(o) or len(o.outputs[0].shape) < 2,
    targets=("openvino",),
    stage=_STAGE,
    figure="whole after a convolution, x 10x170x223, us: OpenVINO 1750 -> 1270",
)
@formula("PRelu", targets=("onnxruntime",), stage=_STAGE, figure="x 64x56x56, ms: ONNX Runtime 0.39 -> 0.07")
def _prelu(o: Op, x: Array, slopes: Array) -> Any:
    """Compute PRelu by relu(x) + (x - relu(x)) * slopes. OpenVINO fuses PRelu with the convolution before it."""
    positive = ops.relu(x)
    return positive + (x - positive) * slopes


@formula("Softmax", targets=("loops",), stage=_STAGE)
@formula(
    "Softmax",
    when=_is_inner,
    targets=("onnxruntime",),
    stage=_STAGE,
    figure="x 150x60x60 over the channels, ms: ONNX Runtime, which transposes, 5.0 -> 0.47",
)
def _softmax(o: Op, x: Array) -> Array:
    """Compute Softmax by exp(x - max(x)) / sum(exp(x - max(x)))."""
    return ops.softmax.meaning(x, axis=o["axis"])


@formula("LogSoftmax", targets=("loops",), stage=_STAGE)
@formula("LogSoftmax", when=_is_inner, targets=("onnxruntime",), stage=_STAGE, figure="as for Softmax")
def _log_softmax(o: Op, x: Array) -> Array:
    """Compute LogSoftmax by x - max(x) - log(sum(exp(x - max(x))))."""
    return ops.log_softmax.meaning(x, axis=o["axis"])


@formula("Softplus", targets=("loops",), stage=_STAGE)
@formula("Softplus", targets=("onnxruntime",), stage=_STAGE, figure="x 64x56x56, ms: ONNX Runtime 1.1 -> 0.26")
def _softplus(o: Op, x: Array) -> Any:
    """Compute Softplus by relu(x) + log(1 + exp(-abs(x)))."""
    return ops.relu(x) + np.log(np.exp(-abs(x)) + 1)


@formula("Gelu", targets=("caffe", "loops", "ncnn", "onnx", "tensorrt"), stage=_STAGE)
@formula("Gelu", when=_has_no_kernel, targets=("onnxruntime",), stage=_STAGE)
def _gelu(o: Op, x: Array) -> Array:
    """Compute Gelu by Erf or Tanh. Opset 18, that of ONNX files, has no Gelu."""
    return ops.gelu.meaning(x, approximate=o["approximate"])


def _is_unusual(o: Op) -> bool:
    return bool(o["size"] % 2 == 0 or o["bias"] <= 0)


@formula("LRN", when=lambda o: _is_unusual(o) or _has_no_kernel(o), targets=("onnxruntime",), stage=_STAGE)
@formula("LRN", when=_is_unusual, targets=("caffe", "ncnn", "openvino", "tensorrt"), stage=_STAGE)
def _lrn(o: Op, x: Array) -> Array:
    """Compute LRN with an even size, or without a positive bias, by a sum of slices of the padded squares. ONNX
    Runtime computes LRN in float32 only."""
    return ops.lrn.meaning(x, int(o["size"]), **{name: o[name] for name in ("alpha", "beta", "bias")})


@formula(
    "LRN",
    when=lambda o: len(o.outputs[0].shape) != 4,
    targets=("caffe", "dv", "ncnn", "onnxruntime", "pytorch", "tensorrt"),
    stage=_STAGE,
)
def _lrn_of_planes(o: Op, x: Array) -> Array:
    """Compute LRN of another rank than 4 on (N, C, rest, 1)."""
    n, c, *sizes = x.shape
    flat: Array = x.reshape(n, c, math.prod(sizes), 1)
    return record("LRN", [flat], flat.shape, x.dtype, **o.attrs).reshape(x.shape)


@formula("LRN", when=lambda o: not float(o["bias"]).is_integer(), targets=("openvino",), stage=_STAGE)
def _lrn_with_bias(o: Op, x: Array) -> Any:
    """Take the bias out of the power as a factor: OpenVINO 2026.4 truncates it to an integer."""
    bias = o["bias"]
    attrs = {**o.attrs, "alpha": o["alpha"] / bias, "bias": 1.0}
    return record("LRN", [x], x.shape, x.dtype, **attrs) * x.dtype.type(bias ** -o["beta"])
