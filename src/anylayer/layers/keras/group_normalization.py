"""Group normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.arguments import axis_of
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
from anylayer.network import Array


@layer("GroupNormalization")
class GroupNormalization(KerasLayer):
    """Compute (x - mean) / sqrt(variance + epsilon) * gamma + beta per group of channels.

    (N, ...) to the same shape. Mean and variance are those of each group of channels of each item.
    Weights: gamma (with scale), beta (with center), each (channels,).
    Source: arXiv 1803.08494; keras/src/layers/normalization/group_normalization.py.
    """

    masks = "passes"
    called_with = frozenset({"mask"})

    groups: int = attribute("int64", 32, doc="number of groups; -1: one per channel")
    axis: int = attribute("int64", -1, doc="axis of the channels")
    epsilon: float = attribute("double", 1e-3, doc="added to the variance")
    center: bool = attribute("bool", True, doc="whether beta is added")
    scale: bool = attribute("bool", True, doc="whether gamma multiplies")

    def forward(self, x: Array, mask: Any = None) -> Any:
        axis = axis_of(self.axis, len(x.shape))
        channels = x.shape[axis]
        groups = channels if self.groups == -1 else self.groups
        need(groups > 0 and channels % groups == 0, f"groups={groups} does not divide {channels} channels")
        parted = x.reshape(*x.shape[:axis], groups, channels // groups, *x.shape[axis + 1 :])
        axes = tuple(i for i in range(1, len(parted.shape)) if i != axis)
        centred = parted - np.mean(parted, axis=axes, keepdims=True)
        variance = np.mean(centred * centred, axis=axes, keepdims=True)
        y = (centred / np.sqrt(variance + np.float32(self.epsilon))).reshape(x.shape)
        wide = tuple(channels if i == axis else 1 for i in range(len(x.shape)))
        if self.scale:
            y = y * self.blob(0, (channels,), what="gamma").reshape(wide)
        if self.center:
            y = y + self.blob(int(self.scale), (channels,), what="beta").reshape(wide)
        return y
