"""Global pooling."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import FORMATS, Spatial, by_rank
from anylayer.network import Array


class GlobalPooling(Spatial):
    """A reduction of the spatial axes to one number per channel."""

    rank: ClassVar[int] = 2
    keepdims: bool = attribute("bool", False, doc="whether the reduced axes are kept with size 1")

    def axes(self, x: Array) -> tuple[int, ...]:
        """Return the axes to reduce."""
        need(
            len(x.shape) == self.rank + 2,
            f"takes an input of rank {self.rank + 2} (batch, {self.rank} axes, channels), got {tuple(x.shape)}",
        )
        first = 1 if self.data_format == FORMATS[0] else 2
        return tuple(range(first, first + self.rank))


class GlobalAveragePooling(GlobalPooling):
    """The mean of each channel."""

    def forward(self, x: Array) -> Any:
        return np.mean(x, axis=self.axes(x), keepdims=self.keepdims)


class GlobalMaxPooling(GlobalPooling):
    """The maximum of each channel."""

    def forward(self, x: Array) -> Any:
        return np.max(x, axis=self.axes(x), keepdims=self.keepdims)


@layer("GlobalAveragePooling1D")
class GlobalAveragePooling1D(GlobalAveragePooling):
    """Compute the mean of each channel over one axis, of the steps that a mask keeps.

    (N, T, C) to (N, C), or (N, 1, C) with keepdims; data_format channels_first puts C at axis 1. The mask is (N,
    T).
    Source: keras/src/layers/pooling/global_average_pooling1d.py.
    """

    rank = 1
    masks = "takes"
    called_with = frozenset({"mask"})

    def forward(self, x: Array, mask: Array | None = None) -> Any:
        axes = self.axes(x)
        if mask is None:
            return np.mean(x, axis=axes, keepdims=self.keepdims)
        weights = np.expand_dims(mask.astype(np.float32), 2 if axes == (1,) else 1)
        total = np.sum(x * weights, axis=axes, keepdims=self.keepdims)
        return total / np.sum(weights, axis=axes, keepdims=self.keepdims)


_SHAPES = """(N, {sizes}, C) to (N, C), or (N, {ones}, C) with keepdims; data_format channels_first puts C at
    axis 1. Source: keras/src/layers/pooling/"""

by_rank(
    GlobalAveragePooling,
    "Compute the mean of each channel over {axes}.",
    _SHAPES + "global_average_pooling{rank}d.py.",
    ranks=(2, 3),
)
by_rank(
    GlobalMaxPooling,
    "Compute the maximum of each channel over {axes}.",
    _SHAPES + "global_max_pooling{rank}d.py.",
)
