"""Zero padding and cropping."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer.layer import need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import Spatial, by_rank, numbers
from anylayer.network import Array


class Borders(Spatial):
    """A layer with two numbers, before and after, for each of `rank` axes."""

    rank: ClassVar[int] = 2

    def pairs(self, padding: Any, what: str, rank: int) -> list[tuple[int, int]]:
        """Return the numbers before and after each axis of an input of rank `rank`."""
        need(rank == self.rank + 2, f"takes an input of rank {self.rank + 2}, got rank {rank}")
        if self.rank == 1:
            padding = [padding]
        elif type(padding) is int:
            padding = [padding] * self.rank
        need(
            isinstance(padding, list) and len(padding) == self.rank,
            f"parameter '{what}' must be {self.rank} pairs, got {padding!r}",
        )
        widths = [numbers(pair, 2, what) for pair in padding]
        need(all(min(pair) >= 0 for pair in widths), f"parameter '{what}' must not be negative, got {padding!r}")
        spatial = [(before, after) for before, after in widths]
        nothing = [(0, 0)]
        first = self.data_format == "channels_last"
        return [*nothing, *spatial, *nothing] if first else [*nothing, *nothing, *spatial]


class ZeroPadding(Borders):
    """Padding with zeros."""

    padding: Any = attribute("any", 1, doc="zeros before and after each axis")

    def forward(self, x: Array) -> Array:
        return np.pad(x, self.pairs(self.padding, "padding", len(x.shape)))


class Cropping(Borders):
    """Removal of cells at the borders."""

    cropping: Any = attribute("any", 1, doc="cells removed before and after each axis")

    def forward(self, x: Array) -> Array:
        pairs = self.pairs(self.cropping, "cropping", len(x.shape))
        for axis, (size, pair) in enumerate(zip(x.shape, pairs)):
            need(
                sum(pair) < size,
                f"cropping {pair[0]} + {pair[1]} leaves nothing of the {size} cells of axis {axis}",
            )
        return x[tuple(slice(a, n - b) for n, (a, b) in zip(x.shape, pairs))]


_SHAPES = """(N, {sizes}, C) to the same rank, each axis %s; data_format channels_first puts C at axis 1.
    Source: keras/src/layers/reshaping/%s"""

by_rank(
    ZeroPadding,
    "Pad {axes} with zeros.",
    _SHAPES % ("longer by its padding", "zero_padding{rank}d.py."),
)
by_rank(
    Cropping,
    "Remove cells at the borders of {axes}.",
    _SHAPES % ("shorter by its cropping", "cropping{rank}d.py."),
)
