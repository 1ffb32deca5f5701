"""ZeroPadding1D, 2D, 3D and Cropping1D, 2D, 3D."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import FORMATS, KerasLayer, numbers, one_of


class Borders(KerasLayer):
    """A layer with a number before and behind each of `rank` axes."""

    rank: ClassVar[int] = 2
    data_format: Any = attribute("any", "channels_last", doc="where the channels lie")

    def setup(self) -> None:
        self.data_format = one_of(self.data_format or "channels_last", FORMATS, "data_format")

    def pairs(self, given: Any, what: str, rank: int) -> list[tuple[int, int]]:
        """Before and behind each axis of an input of `rank`."""
        need(rank == self.rank + 2, f"takes an input of rank {self.rank + 2}, got rank {rank}")
        if self.rank == 1:
            given = [given]
        elif type(given) is int:
            given = [given] * self.rank
        need(
            isinstance(given, list) and len(given) == self.rank,
            f"parameter '{what}' must be {self.rank} pairs, got {given!r}",
        )
        found = [numbers(pair, 2, what) for pair in given]
        need(all(min(pair) >= 0 for pair in found), f"parameter '{what}' must not be negative, got {given!r}")
        spatial = [(before, behind) for before, behind in found]
        nothing = [(0, 0)]
        first = self.data_format == "channels_last"
        return [*nothing, *spatial, *nothing] if first else [*nothing, *nothing, *spatial]


class ZeroPadding(Borders):
    """Zeros around."""

    padding: Any = attribute("any", 1, doc="zeros before and behind each axis")

    def forward(self, x: Any) -> Any:
        """(N, ..., C) with each axis longer."""
        return np.pad(x, self.pairs(self.padding, "padding", len(x.shape)))


class Cropping(Borders):
    """Cells cut off."""

    cropping: Any = attribute("any", 1, doc="cells cut off before and behind each axis")

    def forward(self, x: Any) -> Any:
        """(N, ..., C) with each axis shorter."""
        pairs = self.pairs(self.cropping, "cropping", len(x.shape))
        for axis, (size, pair) in enumerate(zip(x.shape, pairs)):
            need(
                sum(pair) < size,
                f"cropping {pair[0]} + {pair[1]} leaves nothing of the {size} cells of axis {axis}",
            )
        return x[tuple(slice(a, n - b) for n, (a, b) in zip(x.shape, pairs))]


@layer("ZeroPadding1D")
class ZeroPadding1D(ZeroPadding):
    """Zeros before and behind a sequence (keras/src/layers/reshaping/zero_padding1d.py)."""

    rank = 1


@layer("ZeroPadding2D")
class ZeroPadding2D(ZeroPadding):
    """Zeros around pictures (keras/src/layers/reshaping/zero_padding2d.py)."""


@layer("ZeroPadding3D")
class ZeroPadding3D(ZeroPadding):
    """Zeros around three axes (keras/src/layers/reshaping/zero_padding3d.py)."""

    rank = 3


@layer("Cropping1D")
class Cropping1D(Cropping):
    """A sequence without its ends (keras/src/layers/reshaping/cropping1d.py)."""

    rank = 1


@layer("Cropping2D")
class Cropping2D(Cropping):
    """Pictures without their borders (keras/src/layers/reshaping/cropping2d.py)."""


@layer("Cropping3D")
class Cropping3D(Cropping):
    """Three axes without their borders (keras/src/layers/reshaping/cropping3d.py)."""

    rank = 3
