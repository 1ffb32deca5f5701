"""Pooling of windows, and global pooling."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer.layer import attribute, layer
from anylayer.layers.keras._base import FORMATS, Spatial, WindowLayer, by_rank
from anylayer.layers.keras._functions import pool
from anylayer.network import Array, Function


class Pooling(WindowLayer):
    """A reduction of each window of each channel to one number. Padded cells are ignored."""

    kind: ClassVar[str]
    pool_size: Any = attribute("any", 2, doc="size of the window per axis")

    def forward(self, x: Array) -> Array:
        self.need_rank(x)
        return pool(x, self.pool_size, self.strides, self.padding, self.data_format, self.kind)


class GlobalPooling(Spatial):
    """A reduction of the spatial axes to one number per channel."""

    reduce: ClassVar[Function]
    keepdims: bool = attribute("bool", False, doc="whether the reduced axes are kept with size 1")

    def axes(self, x: Array) -> tuple[int, ...]:
        """Return the axes to reduce."""
        self.need_rank(x)
        first = 1 if self.data_format == FORMATS[0] else 2
        return tuple(range(first, first + self.rank))

    def forward(self, x: Array) -> Array:
        return type(self).reduce(x, axis=self.axes(x), keepdims=self.keepdims)


@layer("GlobalAveragePooling1D")
class GlobalAveragePooling1D(GlobalPooling):
    """Compute the mean of each channel over one axis, of the steps that a mask keeps.

    (N, T, C) to (N, C), or (N, 1, C) with keepdims; data_format channels_first puts C at axis 1. The mask is (N,
    T).
    Source: keras/src/layers/pooling/global_average_pooling1d.py.
    """

    rank = 1
    masks = "takes"
    called_with = frozenset({"mask"})

    def forward(self, x: Array, mask: Array | None = None) -> Array:
        axes = self.axes(x)
        if mask is None:
            return np.mean(x, axis=axes, keepdims=self.keepdims)
        weights = np.expand_dims(mask.astype(np.float32), 2 if axes == (1,) else 1)
        total = np.sum(x * weights, axis=axes, keepdims=self.keepdims)
        return total / np.sum(weights, axis=axes, keepdims=self.keepdims)


_WINDOWS = """(N, {sizes}, C) to (N, {new}, C); data_format channels_first puts C at axis 1. Padded cells are
    ignored. Source: keras/src/layers/pooling/%s_pooling{rank}d.py."""
_GLOBAL = """(N, {sizes}, C) to (N, C), or (N, {ones}, C) with keepdims; data_format channels_first puts C at
    axis 1. Source: keras/src/layers/pooling/global_%s_pooling{rank}d.py."""

for _name, _what, _reduce in (("Max", "maximum", np.max), ("Average", "mean", np.mean)):
    by_rank(
        Pooling,
        f"Compute the {_what} of each window over {{axes}}.",
        _WINDOWS % _name.lower(),
        name=f"{_name}Pooling{{rank}}D",
        kind=_name.lower(),
    )
    by_rank(
        GlobalPooling,
        f"Compute the {_what} of each channel over {{axes}}.",
        _GLOBAL % _name.lower(),
        (2, 3) if _name == "Average" else (1, 2, 3),
        name=f"Global{_name}Pooling{{rank}}D",
        reduce=staticmethod(_reduce),
    )
