"""Activation layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.arguments import axis_of
from anylayer.layer.fields import attribute
from anylayer.layers.keras import _activations
from anylayer.layers.keras._base import PassesMask, plain_value
from anylayer.network import Array


@layer("Activation")
class Activation(PassesMask):
    """Apply the activation function that is given by name.

    (N, ...) to the same shape.
    Source: keras/src/layers/activations/activation.py.
    """

    activation: Any = attribute("any", doc="name of the function, or a serialized function")

    def forward(self, x: Array, mask: Any = None) -> Any:
        return _activations.activation(self.activation, self.dialect)(x)


@layer("ReLU")
class ReLU(PassesMask):
    """Compute x from a threshold up to max_value, and a linear slope below the threshold.

    (N, ...) to the same shape. For x < threshold the output is negative_slope * (x - threshold).
    Source: keras/src/layers/activations/relu.py.
    """

    max_value: Any = attribute("any", None, doc="largest output; none: no limit")
    negative_slope: Any = attribute("any", 0.0, doc="slope below the threshold")
    threshold: Any = attribute("any", 0.0, doc="threshold from which x is passed on")

    def forward(self, x: Array, mask: Any = None) -> Array:
        slope, threshold = _real(self.negative_slope or 0.0), _real(self.threshold or 0.0)
        limit = None if self.max_value is None else _real(self.max_value)
        return _activations.relu(x, slope, limit, threshold)


@layer("LeakyReLU")
class LeakyReLU(PassesMask):
    """Compute x where x > 0, else negative_slope * x.

    (N, ...) to the same shape.
    Source: keras/src/layers/activations/leaky_relu.py.
    """

    negative_slope: Any = attribute("any", None, doc="slope of the negative part; default 0.3")
    alpha: Any = attribute("any", None, doc="name of negative_slope in Keras 2")

    def forward(self, x: Array, mask: Any = None) -> Array:
        slope = next((v for v in (self.negative_slope, self.alpha) if v is not None), 0.3)
        return ops.leaky_relu(x, alpha=_real(slope))


@layer("ELU")
class ELU(PassesMask):
    """Compute x where x > 0, else alpha * (exp(x) - 1).

    (N, ...) to the same shape.
    Source: keras/src/layers/activations/elu.py.
    """

    alpha: Any = attribute("any", 1.0, doc="-alpha is the limit for x towards minus infinity")

    def forward(self, x: Array, mask: Any = None) -> Array:
        return ops.elu(x, alpha=_real(self.alpha))


@layer("ThresholdedReLU")
class ThresholdedReLU(PassesMask):
    """Compute x where x > theta, else 0.

    (N, ...) to the same shape. Source: keras.layers.ThresholdedReLU of Keras 2; Keras 3 has no such layer.
    """

    theta: Any = attribute("any", 1.0, doc="the threshold")

    def forward(self, x: Array, mask: Any = None) -> Any:
        return np.where(x > np.float32(_real(self.theta)), x, np.float32(0))


@layer("PReLU")
class PReLU(PassesMask):
    """Compute x where x > 0, else alpha * x with a learned alpha.

    (N, ...) to the same shape.
    Weights: alpha, with the shape of an item, in which shared axes have size 1.
    Source: keras/src/layers/activations/prelu.py.
    """

    shared_axes: Any = attribute("any", None, doc="axes along which alpha does not vary, counted from 1")

    def forward(self, x: Array, mask: Any = None) -> Array:
        shared = self.shared_axes or []
        axes = {
            axis_of(a, len(x.shape), "shared_axes") for a in (shared if isinstance(shared, list) else [shared])
        }
        need(0 not in axes, "shared_axes must not contain the batch axis 0")
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if i)
        return ops.prelu(x, self.blob(0, shape, what="alpha"))


@layer("Softmax")
class Softmax(PassesMask):
    """Compute exp(x), divided by its sum over `axis`.

    (N, ...) to the same shape. Elements where `mask` is false become 0.
    Source: keras/src/layers/activations/softmax.py.
    """

    axis: Any = attribute("any", -1, doc="axis or axes of the sum")

    def forward(self, x: Array, mask: Any = None) -> Any:
        if mask is not None:
            x = x + (np.float32(1) - mask.astype(np.float32)) * np.float32(-3e38)
        axes = self.axis if isinstance(self.axis, list) else [self.axis]
        if len(axes) == 1:
            return ops.softmax(x, axis=axes[0])
        positive = tuple(sorted(axis_of(int(a), len(x.shape)) for a in axes))
        e = np.exp(x - np.max(x, axis=positive, keepdims=True))
        return e / np.sum(e, axis=positive, keepdims=True)


def _real(value: Any) -> float:
    """Return a number of the configuration."""
    value = plain_value(value)
    need(type(value) in (int, float), f"must be a number, got {value!r}")
    return float(value)
