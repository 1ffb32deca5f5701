"""Normalization, Rescaling, LayerScale."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.layers.keras.layer_normalization import axes_of

_LEAST = np.float32(1e-7)


@layer("Normalization")
class Normalization(KerasLayer):
    """(x - mean) / sqrt(variance) by `axis`; with invert the other way round.

    Weights: mean and variance of the sizes of `axis`, and the count of what they were taken from; none where the
    configuration gives mean and variance. Source: keras/src/layers/preprocessing/normalization.py.
    """

    masks = "passes"

    axis: Any = attribute("any", -1, doc="axis or axes with a mean and variance of their own; none: one for all")
    mean: Any = attribute("any", None, doc="the mean, where it is not learnt")
    variance: Any = attribute("any", None, doc="the variance, where it is not learnt")
    invert: bool = attribute("bool", False, doc="whether the normalisation is undone")

    def forward(self, x: Any) -> Any:
        """(N, ...) to the same shape, float32."""
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
            need(self.variance is not None, "parameter 'variance' is missing beside 'mean'")
            mean, variance = (_aligned(v, axes, wide) for v in (self.mean, self.variance))
        deviation = np.maximum(np.sqrt(variance), _LEAST)
        return mean + x * deviation if self.invert else (x - mean) / deviation


def _aligned(value: Any, axes: tuple[int, ...], wide: tuple[int, ...]) -> Any:
    """A mean of the configuration at its axes: its last dimension is the last axis."""
    array = np.asarray(value, np.float32)
    if array.ndim <= len(axes):
        shape = [1] * len(wide)
        for axis, size in zip(axes[len(axes) - array.ndim :], array.shape):
            shape[axis] = size
        array = array.reshape(shape)
    return np.broadcast_to(array, wide) if array.ndim == len(wide) else array


@layer("LayerScale")
class LayerScale(KerasLayer):
    """x times a weight a channel: ConvNeXt's own layer (keras/src/applications/convnext.py)."""

    masks = "passes"
    harmless = frozenset({"init_values"})

    projection_dim: int = attribute("int64", doc="number of channels")

    def forward(self, x: Any) -> Any:
        """(..., C) to the same shape."""
        return x * self.blob(0, (self.projection_dim,), what="gamma")


@layer("Rescaling")
class Rescaling(KerasLayer):
    """x * scale + offset (keras/src/layers/preprocessing/rescaling.py)."""

    masks = "passes"

    scale: Any = attribute("any", doc="the factor: one number, or one a channel")
    offset: Any = attribute("any", 0.0, doc="what is added: one number, or one a channel")

    def forward(self, x: Any) -> Any:
        """(N, ...) to the same shape, float32."""
        return x.astype(np.float32) * _number(self.scale) + _number(self.offset)


def _number(value: Any) -> Any:
    """A number or list of the configuration, plain or serialised as an array."""
    if isinstance(value, dict):
        config = value.get("config", value)
        value = config.get("value", config) if isinstance(config, dict) else config
    return np.asarray(value, np.float32)
