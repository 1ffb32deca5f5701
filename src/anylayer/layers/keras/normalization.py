"""Normalization, Rescaling and LayerScale."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.layers.keras.layer_normalization import axes_of
from anylayer.network import Array

_SMALLEST_DEVIATION = np.float32(1e-7)


@layer("Normalization")
class Normalization(KerasLayer):
    """Compute (x - mean) / sqrt(variance) per index of `axis`, or the inverse with invert.

    (N, ...) to the same shape in float32.
    Weights: mean and variance with the sizes of `axis`, and the number of samples that they were
    computed from; none when the configuration gives mean and variance.
    Source: keras/src/layers/preprocessing/normalization.py.
    """

    masks = "passes"

    axis: Any = attribute(
        "any", -1, doc="axis or axes whose indices have a mean and variance of their own; none: one for all"
    )
    mean: Any = attribute("any", None, doc="the mean, where it is not a weight")
    variance: Any = attribute("any", None, doc="the variance, where it is not a weight")
    invert: bool = attribute("bool", False, doc="whether the normalization is inverted")

    def forward(self, x: Array) -> Array:
        x = x.astype(np.float32)
        axes = axes_of([] if self.axis is None else self.axis, len(x.shape))
        sizes = tuple(x.shape[a] for a in axes)
        wide = tuple(n if a in axes else 1 for a, n in enumerate(x.shape))
        if self.mean is None:
            mean, variance = self.blob(0, sizes, what="mean"), self.blob(1, sizes, what="variance")
            if len(self._blobs) > 2:
                self.blob(2, (), what="count")
            mean, variance = mean.reshape(wide), variance.reshape(wide)
        else:
            need(self.variance is not None, "parameter 'mean' needs parameter 'variance', which is missing")
            mean, variance = (_align(v, axes, wide) for v in (self.mean, self.variance))
        deviation = np.maximum(np.sqrt(variance), _SMALLEST_DEVIATION)
        return mean + x * deviation if self.invert else (x - mean) / deviation


def _align(value: Any, axes: tuple[int, ...], wide: tuple[int, ...]) -> Array:
    """Return a mean or variance of the configuration with its last dimension at the last of `axes`."""
    array = np.asarray(value, np.float32)
    if array.ndim <= len(axes):
        shape = [1] * len(wide)
        for axis, size in zip(axes[len(axes) - array.ndim :], array.shape):
            shape[axis] = size
        array = array.reshape(shape)
    return np.broadcast_to(array, wide) if array.ndim == len(wide) else array


@layer("LayerScale")
class LayerScale(KerasLayer):
    """Multiply each channel by a learned factor.

    (..., C) to the same shape.
    Weights: gamma (projection_dim,). Source: keras/src/applications/convnext.py.
    """

    masks = "passes"
    harmless = frozenset({"init_values"})

    projection_dim: int = attribute("int64", doc="number of channels")

    def forward(self, x: Array) -> Array:
        return x * self.blob(0, (self.projection_dim,), what="gamma")


@layer("Rescaling")
class Rescaling(KerasLayer):
    """Compute x * scale + offset.

    (N, ...) to the same shape in float32.
    Source: keras/src/layers/preprocessing/rescaling.py.
    """

    masks = "passes"

    scale: Any = attribute("any", doc="the factor: one number, or one per channel")
    offset: Any = attribute("any", 0.0, doc="what is added: one number, or one per channel")

    def forward(self, x: Array) -> Array:
        return x.astype(np.float32) * _number(self.scale) + _number(self.offset)


def _number(value: Any) -> Array:
    """Return a number or a list of the configuration, plain or serialized as an array, in float32."""
    if isinstance(value, dict):
        config = value.get("config", value)
        value = config.get("value", config) if isinstance(config, dict) else config
    return np.asarray(value, np.float32)
