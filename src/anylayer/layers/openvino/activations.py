"""Activation functions with attributes or inputs of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, layer, need
from anylayer.layer.arguments import axis_of, constant
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import OpenVINOLayer
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


@layer("Elu")
class Elu(OpenVINOLayer):
    """Compute x where x > 0, else alpha * (exp(x) - 1).

    The output has the shape of x.
    Source: OpenVINO operation specification, Elu-1.
    """

    elementwise = True
    alpha: float = attribute("float")

    def forward(self, x: Array) -> Array:
        return ops.elu(x, alpha=self.alpha)


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


@layer("Gelu")
class Gelu(OpenVINOLayer):
    """Compute x * P(X <= x) for a standard normal X, or its tanh approximation.

    The output has the shape of x.
    Source: OpenVINO operation specification, Gelu-2 and Gelu-7.
    """

    elementwise = True
    approximation_mode: str = attribute(Enum("erf", "tanh"), "erf")

    def forward(self, x: Array) -> Array:
        return ops.gelu(x, approximate="none" if self.approximation_mode == "erf" else "tanh")


@layer("Swish")
class Swish(OpenVINOLayer):
    """Compute x * sigmoid(beta * x), where beta is 1 when it is not given.

    The output has the shape of x.
    Source: OpenVINO operation specification, Swish-4.
    """

    elementwise = True

    def forward(self, x: Array, beta: Array | None = None) -> Any:
        return x * ops.sigmoid(x if beta is None else x * beta)


@layer("HardSigmoid")
class HardSigmoid(OpenVINOLayer):
    """Compute max(0, min(1, alpha * x + beta)).

    The output has the shape of x. alpha and beta are constant scalars.
    Source: OpenVINO operation specification, HardSigmoid-1.
    """

    elementwise = True

    def forward(self, x: Array, alpha: Array, beta: Array) -> Array:
        return ops.hard_sigmoid(x, alpha=number(alpha, "alpha"), beta=number(beta, "beta"))


@layer("Selu")
class Selu(OpenVINOLayer):
    """Compute lambda * x where x > 0, else lambda * alpha * (exp(x) - 1).

    The output has the shape of x. alpha and lambda are constant inputs with one element.
    Source: OpenVINO operation specification, Selu-1.
    """

    elementwise = True

    def forward(self, x: Array, alpha: Array, scale: Array) -> Any:
        return x.dtype.type(number(scale, "lambda")) * ops.elu(x, alpha=number(alpha, "alpha"))


@layer("SoftMax")
class SoftMax(OpenVINOLayer):
    """Compute exp(x), divided by its sum along `axis`.

    The output has the shape of x.
    Source: OpenVINO operation specification, SoftMax-1 and SoftMax-8.
    """

    axis: int = attribute("int64", 1)

    def forward(self, x: Array) -> Array:
        return ops.softmax(x, axis=axis_of(self.axis, len(x.shape)))


@layer("Softmax")
class Softmax(SoftMax):
    """Compute exp(x), divided by its sum along `axis`: SoftMax by its newer name.

    The output has the shape of x. Source: OpenVINO operation specification, SoftMax-8.
    """


@layer("LogSoftmax")
class LogSoftmax(OpenVINOLayer):
    """Compute x minus the logarithm of the sum of exp(x) along `axis`.

    The output has the shape of x.
    Source: OpenVINO operation specification, LogSoftmax-5.
    """

    axis: int = attribute("int64", 1)

    def forward(self, x: Array) -> Array:
        return ops.log_softmax(x, axis=axis_of(self.axis, len(x.shape)))
