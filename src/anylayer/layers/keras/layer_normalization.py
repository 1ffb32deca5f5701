"""LayerNormalization and RMSNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer
from anylayer.layer.arguments import axis_of
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.network import Array


def axes_of(value: Any, rank: int) -> tuple[int, ...]:
    """Return one axis or several as sorted indices of 0 or more."""
    listed = value if isinstance(value, list) else [value]
    return tuple(sorted(axis_of(int(axis), rank) for axis in listed))


@layer("LayerNormalization")
class LayerNormalization(KerasLayer):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta over `axis` of each item.

    (N, ...) to the same shape. With rms_scaling, x / sqrt(variance + epsilon) * gamma.
    Weights: gamma (with scale), beta (with center), each with the sizes of `axis`.
    Source: keras/src/layers/normalization/layer_normalization.py.
    """

    masks = "passes"
    called_with = frozenset({"mask"})

    axis: Any = attribute("any", -1, doc="axis or axes that are normalized together")
    epsilon: float = attribute("double", 1e-3, doc="added to the variance")
    center: bool = attribute("bool", True, doc="whether beta is added")
    scale: bool = attribute("bool", True, doc="whether gamma multiplies")
    rms_scaling: bool = attribute("bool", False, doc="whether the mean is not subtracted and beta not added")

    def forward(self, x: Array, mask: Any = None) -> Any:
        axes = axes_of(self.axis, len(x.shape))
        sizes = tuple(x.shape[a] for a in axes)
        wide = tuple(n if a in axes else 1 for a, n in enumerate(x.shape))
        epsilon = np.float32(self.epsilon)
        if self.rms_scaling:
            mean = np.mean(x, axis=axes, keepdims=True)
            variance = np.mean((x - mean) * (x - mean), axis=axes, keepdims=True)
            y = x / np.sqrt(variance + epsilon)
            return y * self.blob(0, sizes, what="gamma").reshape(wide)
        centred = x - np.mean(x, axis=axes, keepdims=True)
        y = centred / np.sqrt(np.mean(centred * centred, axis=axes, keepdims=True) + epsilon)
        if self.scale:
            y = y * self.blob(0, sizes, what="gamma").reshape(wide)
        if self.center:
            y = y + self.blob(int(self.scale), sizes, what="beta").reshape(wide)
        return y


@layer("RMSNormalization")
class RMSNormalization(KerasLayer):
    """Compute x / sqrt(mean(x * x) + epsilon) * scale over `axis` of each item.

    (N, ...) to the same shape.
    Weights: scale, with the sizes of `axis`.
    Source: keras/src/layers/normalization/rms_normalization.py.
    """

    masks = "passes"
    called_with = frozenset({"mask"})

    axis: Any = attribute("any", -1, doc="axis or axes that are normalized together")
    epsilon: float = attribute("double", 1e-6, doc="added to the mean of the squares")

    def forward(self, x: Array, mask: Any = None) -> Any:
        axes = axes_of(self.axis, len(x.shape))
        wide = tuple(n if a in axes else 1 for a, n in enumerate(x.shape))
        scale = self.blob(0, tuple(x.shape[a] for a in axes), what="scale").reshape(wide)
        return x / np.sqrt(np.mean(x * x, axis=axes, keepdims=True) + np.float32(self.epsilon)) * scale
