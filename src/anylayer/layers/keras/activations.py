"""Activation, ReLU, LeakyReLU, PReLU, ELU, ThresholdedReLU, Softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras import _activations
from anylayer.layers.keras._base import KerasLayer, axis_of


class Elementwise(KerasLayer):
    """A function of each value."""

    masks = "passes"
    called_with = frozenset({"mask"})


@layer("Activation")
class Activation(Elementwise):
    """A function by name (keras/src/layers/activations/activation.py)."""

    activation: Any = attribute("any", doc="the function's name")

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same shape."""
        return _activations.activation(self.activation, self.dialect)(x)


@layer("ReLU")
class ReLU(Elementwise):
    """x above a threshold, up to a largest value; a slope below (keras/src/layers/activations/relu.py)."""

    max_value: Any = attribute("any", None, doc="the largest result; none: no limit")
    negative_slope: Any = attribute("any", 0.0, doc="factor below the threshold")
    threshold: Any = attribute("any", 0.0, doc="where the values begin")

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same shape."""
        slope, threshold = _real(self.negative_slope or 0.0), _real(self.threshold or 0.0)
        most = None if self.max_value is None else _real(self.max_value)
        return _activations.relu(x, slope, most, threshold)


@layer("LeakyReLU")
class LeakyReLU(Elementwise):
    """x where it is positive, else a multiple of it (keras/src/layers/activations/leaky_relu.py)."""

    negative_slope: Any = attribute("any", None, doc="factor of negative values; 0.3 where none is given")
    alpha: Any = attribute("any", None, doc="Keras 2's name of the factor")

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same shape."""
        slope = next((v for v in (self.negative_slope, self.alpha) if v is not None), 0.3)
        return ops.leaky_relu(x, alpha=_real(_plain(slope)))


@layer("ELU")
class ELU(Elementwise):
    """x where it is positive, else alpha * (exp(x) - 1) (keras/src/layers/activations/elu.py)."""

    alpha: Any = attribute("any", 1.0, doc="the limit towards the left")

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same shape."""
        return ops.elu(x, alpha=_real(_plain(self.alpha)))


@layer("ThresholdedReLU")
class ThresholdedReLU(Elementwise):
    """x where it is more than theta, else 0 (Keras 2)."""

    theta: Any = attribute("any", 1.0, doc="the threshold")

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same shape."""
        return np.where(x > np.float32(_real(_plain(self.theta))), x, np.float32(0))


@layer("PReLU")
class PReLU(Elementwise):
    """x where it is positive, else a learnt multiple of it (keras/src/layers/activations/prelu.py).

    Weights: alpha, of an item's shape with 1 for the shared axes.
    """

    shared_axes: Any = attribute("any", None, doc="axes along which alpha is one number, counted from 1")

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same shape."""
        shared = self.shared_axes or []
        axes = {
            axis_of(a, len(x.shape), "shared_axes") for a in (shared if isinstance(shared, list) else [shared])
        }
        need(0 not in axes, "shared_axes holds the batch")
        shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape) if i)
        return ops.prelu(x, self.blob(0, shape, what="alpha"))


@layer("Softmax")
class Softmax(Elementwise):
    """exp(x) / sum(exp(x)) (keras/src/layers/activations/softmax.py)."""

    axis: Any = attribute("any", -1, doc="axis or axes of the sum")

    def forward(self, x: Any, mask: Any = None) -> Any:
        """(N, ...) to the same shape; where `mask` is false, 0."""
        if mask is not None:
            x = x + (np.float32(1) - mask.astype(np.float32)) * np.float32(-3e38)
        axes = self.axis if isinstance(self.axis, list) else [self.axis]
        if len(axes) == 1:
            return ops.softmax(x, axis=axes[0])
        found = tuple(sorted(axis_of(int(a), len(x.shape)) for a in axes))
        e = np.exp(x - np.max(x, axis=found, keepdims=True))
        return e / np.sum(e, axis=found, keepdims=True)


def _plain(value: Any) -> Any:
    """A number, also where Keras 2 writes it as an array: {"class_name"/"type": "ndarray", "value": 0.1}."""
    if isinstance(value, dict):
        inner = value.get("config", value)
        return inner.get("value", inner) if isinstance(inner, dict) else inner
    return value


def _real(value: Any) -> float:
    value = _plain(value)
    need(type(value) in (int, float), f"must be a number, got {value!r}")
    return float(value)
