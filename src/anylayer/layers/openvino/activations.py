"""Activation functions with attributes or inputs of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import number
from anylayer.layers._table import computes, operators, row
from anylayer.layers.openvino._base import SAME_SHAPE, SPECIFICATION, OpenVINOLayer


def _clamp(x: Array, min: float, max: float) -> Any:
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        low = x.dtype.type(np.clip(np.ceil(min), limits.min, limits.max))
        high = x.dtype.type(np.clip(np.floor(max), limits.min, limits.max))
    else:
        with np.errstate(over="ignore"):
            low, high = x.dtype.type(min), x.dtype.type(max)
    return np.minimum(np.maximum(x, low), high)


def _prelu(x: Array, slope: Array) -> Array:
    rank = len(x.shape)
    if len(slope.shape) == 1 and slope.shape[0] != 1 and rank > 1:
        need(
            slope.shape[0] == x.shape[1],
            f"the slope has {slope.shape[0]} numbers, but the input has {x.shape[1]} channels",
        )
        slope = slope.reshape(slope.shape[0], *[1] * (rank - 2))
    return np.where(x < x.dtype.type(0), x * slope, x)


operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "Clamp": row("Compute min(max(x, min), max) of each element.", _clamp, "Clamp-1",
            min=attribute("double"), max=attribute("double")),
        "PReLU": row("Compute x where x >= 0, else slope * x.", _prelu, "PReLU-1",
            "The slope broadcasts to x; a slope of rank 1 has one number per channel (axis 1)."),
        "Elu": row("Compute x where x > 0, else alpha * (exp(x) - 1).", ops.elu, "Elu-1",
            alpha=attribute("float")),
        "Gelu": row("Compute x * P(X <= x) for a standard normal X, or its tanh approximation.",
            lambda x, approximation_mode: ops.gelu(x, approximate=approximation_mode.replace("erf", "none")),
            "Gelu-2 and Gelu-7", approximation_mode=attribute(Enum("erf", "tanh"), "erf")),
        "Swish": computes("x * sigmoid(beta * x), where beta is 1 when it is not given",
            lambda x, beta=None: x * ops.sigmoid(x if beta is None else x * beta), "Swish-4"),
        "HardSigmoid": row(
            "Compute max(0, min(1, alpha * x + beta)), where alpha and beta are constant scalars.",
            lambda x, alpha, beta: ops.hard_sigmoid(x, alpha=alpha, beta=beta), "HardSigmoid-1",
            alpha=number, beta=number),
        "Selu": row(
            "Compute scale * x where x > 0, else scale * alpha * (exp(x) - 1), where both are constant scalars.",
            lambda x, alpha, scale: x.dtype.type(scale) * ops.elu(x, alpha=alpha), "Selu-1",
            alpha=number, scale=number),
    },
    elementwise=True,
)  # fmt: skip
operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "SoftMax": computes("exp(x), divided by its sum along `axis`", ops.softmax, "SoftMax-1"),
        "Softmax": computes(
            "exp(x), divided by its sum along `axis`: SoftMax by its newer name", ops.softmax, "SoftMax-8"
        ),
        "LogSoftmax": computes(
            "x minus the logarithm of the sum of exp(x) along `axis`", ops.log_softmax, "LogSoftmax-5"
        ),
    },
    attributes={"axis": attribute("int64", 1)},
)
