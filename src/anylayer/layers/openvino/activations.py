"""Activation functions with attributes or inputs of their own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, layer, need
from anylayer.layer.arguments import axis_of, constant
from anylayer.layer.fields import attribute
from anylayer.layers._table import OperatorType, computes, operators
from anylayer.layers.openvino._base import SAME_SHAPE, SPECIFICATION, OpenVINOLayer
from anylayer.network import Array


def number(x: Array, what: str) -> float:
    """Return the number of a constant input with one element."""
    value = constant(x, what)
    need(value.size == 1, f"{what} must be one number, got shape {value.shape}")
    return float(value.reshape(())[()])


@layer("Clamp")
class Clamp(OpenVINOLayer):
    """Compute min(max(x, min), max) of each element.

    The output has the shape of x.
    Source: OpenVINO operation specification, Clamp-1.
    """

    elementwise = True
    min: float = attribute("double")
    max: float = attribute("double")

    def forward(self, x: Array) -> Any:
        if x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            low = x.dtype.type(np.clip(np.ceil(self.min), limits.min, limits.max))
            high = x.dtype.type(np.clip(np.floor(self.max), limits.min, limits.max))
        else:
            with np.errstate(over="ignore"):
                low, high = x.dtype.type(self.min), x.dtype.type(self.max)
        return np.minimum(np.maximum(x, low), high)


@layer("PReLU")
class PReLU(OpenVINOLayer):
    """Compute x where x >= 0, else slope * x.

    The output has the shape of x. The slope broadcasts to x; a slope of rank 1 has one number per channel (axis
    1).
    Source: OpenVINO operation specification, PReLU-1.
    """

    elementwise = True

    def forward(self, x: Array, slope: Array) -> Array:
        rank = len(x.shape)
        if len(slope.shape) == 1 and slope.shape[0] != 1 and rank > 1:
            need(
                slope.shape[0] == x.shape[1],
                f"the slope has {slope.shape[0]} numbers, but the input has {x.shape[1]} channels",
            )
            slope = slope.reshape(slope.shape[0], *[1] * (rank - 2))
        return np.where(x < x.dtype.type(0), x * slope, x)


def _along(function: Callable[..., Array]) -> Callable[..., Array]:
    """Return a function of `axis`, which may be negative."""
    return lambda x, axis: function(x, axis=axis_of(axis, len(x.shape)))


operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "Elu": OperatorType(
            "Compute x where x > 0, else alpha * (exp(x) - 1).", ops.elu, "Elu-1", {"alpha": attribute("float")}
        ),
        "Gelu": OperatorType(
            "Compute x * P(X <= x) for a standard normal X, or its tanh approximation.",
            lambda x, approximation_mode: ops.gelu(x, approximate=approximation_mode.replace("erf", "none")),
            "Gelu-2 and Gelu-7",
            {"approximation_mode": attribute(Enum("erf", "tanh"), "erf")},
        ),
        "Swish": computes(
            "x * sigmoid(beta * x), where beta is 1 when it is not given",
            lambda x, beta=None: x * ops.sigmoid(x if beta is None else x * beta),
            "Swish-4",
        ),
        "HardSigmoid": OperatorType(
            "Compute max(0, min(1, alpha * x + beta)), where alpha and beta are constant scalars.",
            lambda x, alpha, beta: ops.hard_sigmoid(x, alpha=alpha, beta=beta),
            "HardSigmoid-1",
            constants={"alpha": number, "beta": number},
        ),
        "Selu": OperatorType(
            "Compute scale * x where x > 0, else scale * alpha * (exp(x) - 1), where both are constant scalars.",
            lambda x, alpha, scale: x.dtype.type(scale) * ops.elu(x, alpha=alpha),
            "Selu-1",
            constants={"alpha": number, "scale": number},
        ),
    },
    elementwise=True,
)
operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "SoftMax": computes("exp(x), divided by its sum along `axis`", _along(ops.softmax), "SoftMax-1"),
        "Softmax": computes(
            "exp(x), divided by its sum along `axis`: SoftMax by its newer name", _along(ops.softmax), "SoftMax-8"
        ),
        "LogSoftmax": computes(
            "x minus the logarithm of the sum of exp(x) along `axis`", _along(ops.log_softmax), "LogSoftmax-5"
        ),
    },
    attributes={"axis": attribute("int64", 1)},
)
