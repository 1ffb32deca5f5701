"""Activations with attributes or inputs of their own."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation, axis_of, known


def number(x: Any, what: str) -> float:
    """An input that is one number, known before the network runs."""
    value = known(x, what)
    need(value.size == 1, f"{what} must be one number, got shape {value.shape}")
    return float(value.reshape(())[()])


@layer("Clamp")
class Clamp(Operation):
    """Numbers below `min` become min, those above `max` max.

    Source: OpenVINO, Clamp-1.
    """

    elementwise = True
    min: float = attribute("double")
    max: float = attribute("double")

    def forward(self, x: Any) -> Any:
        if x.dtype.kind in "iu":
            limits = np.iinfo(x.dtype)
            low = x.dtype.type(np.clip(np.ceil(self.min), limits.min, limits.max))
            high = x.dtype.type(np.clip(np.floor(self.max), limits.min, limits.max))
        else:
            with np.errstate(over="ignore"):
                low, high = x.dtype.type(self.min), x.dtype.type(self.max)
        return np.minimum(np.maximum(x, low), high)


@layer("Elu")
class Elu(Operation):
    """x where positive, alpha * (exp(x) - 1) elsewhere.

    Source: OpenVINO, Elu-1.
    """

    elementwise = True
    alpha: float = attribute("float")

    def forward(self, x: Any) -> Any:
        return ops.elu(x, alpha=self.alpha)


@layer("PReLU")
class PReLU(Operation):
    """x where positive, slope * x elsewhere; a slope of one axis is one a channel.

    Source: OpenVINO, PRelu-1.
    """

    elementwise = True

    def forward(self, x: Any, slope: Any) -> Any:
        rank = len(x.shape)
        if len(slope.shape) == 1 and slope.shape[0] != 1 and rank > 1:
            need(
                slope.shape[0] == x.shape[1],
                f"the slope has {slope.shape[0]} numbers, the input {x.shape[1]} channels",
            )
            slope = slope.reshape(slope.shape[0], *[1] * (rank - 2))
        return np.where(x < x.dtype.type(0), x * slope, x)


@layer("Gelu")
class Gelu(Operation):
    """x times the share of the normal distribution below x.

    Source: OpenVINO, Gelu-2, Gelu-7.
    """

    elementwise = True
    approximation_mode: str = attribute(Enum("erf", "tanh"), "erf")

    def forward(self, x: Any) -> Any:
        return ops.gelu(x, approximate="none" if self.approximation_mode == "erf" else "tanh")


@layer("Swish")
class Swish(Operation):
    """x * sigmoid(beta * x), beta 1 where it is not given.

    Source: OpenVINO, Swish-4.
    """

    elementwise = True

    def forward(self, x: Any, beta: Any = None) -> Any:
        return x * ops.sigmoid(x if beta is None else x * beta)


@layer("HardSigmoid")
class HardSigmoid(Operation):
    """max(0, min(1, alpha * x + beta)).

    Source: OpenVINO, HardSigmoid-1.
    """

    elementwise = True

    def forward(self, x: Any, alpha: Any, beta: Any) -> Any:
        return ops.hard_sigmoid(x, alpha=number(alpha, "alpha"), beta=number(beta, "beta"))


@layer("Selu")
class Selu(Operation):
    """lambda * x where positive, lambda * alpha * (exp(x) - 1) elsewhere.

    Source: OpenVINO, Selu-1.
    """

    elementwise = True

    def forward(self, x: Any, alpha: Any, scale: Any) -> Any:
        return x.dtype.type(number(scale, "lambda")) * ops.elu(x, alpha=number(alpha, "alpha"))


@layer("SoftMax")
class SoftMax(Operation):
    """exp(x) divided by its sum along `axis`.

    Source: OpenVINO, SoftMax-1, SoftMax-8.
    """

    axis: int = attribute("int64", 1)

    def forward(self, x: Any) -> Any:
        return ops.softmax(x, axis=axis_of(self.axis, len(x.shape)))


layer("Softmax")(type("Softmax", (SoftMax,), {"__doc__": "SoftMax by its newer name.", "__module__": __name__}))


@layer("LogSoftmax")
class LogSoftmax(Operation):
    """The logarithm of SoftMax.

    Source: OpenVINO, LogSoftmax-5.
    """

    axis: int = attribute("int64", 1)

    def forward(self, x: Any) -> Any:
        return ops.log_softmax(x, axis=axis_of(self.axis, len(x.shape)))
