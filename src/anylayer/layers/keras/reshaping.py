"""Layers that reshape, permute, repeat, pad and crop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.arguments import target_shape
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer, Spatial, by_rank, numbers
from anylayer.network import Array


@layer("Flatten")
class Flatten(KerasLayer):
    """Flatten each item to a vector, in channels-last order.

    (N, ...) to (N, elements).
    Source: keras/src/layers/reshaping/flatten.py.
    """

    data_format: Any = attribute(
        "any", "channels_last", doc="channels_last: (N, ..., C); channels_first: (N, C, ...)"
    )

    def forward(self, x: Array) -> Array:
        rank = len(x.shape)
        if self.data_format == "channels_first" and rank > 2:
            x = x.transpose(0, *range(2, rank), 1)
        return x.reshape(x.shape[0], math.prod(x.shape[1:]))


@layer("Reshape")
class Reshape(KerasLayer):
    """Reshape each item.

    (N, ...) to (N, *target_shape).
    Source: keras/src/layers/reshaping/reshape.py.
    """

    target_shape: Any = attribute("any", doc="shape of the output without the batch; one size may be -1")

    def forward(self, x: Array) -> Array:
        sizes = self.target_shape
        need(
            isinstance(sizes, list) and all(type(d) is int for d in sizes),
            f"target_shape must be a list of sizes, got {sizes!r}",
        )
        return x.reshape(x.shape[0], *target_shape(x.shape[1:], sizes, "target_shape"))


@layer("Permute")
class Permute(KerasLayer):
    """Permute the axes of each item.

    (N, ...) to (N, ...), where axis i of the output is axis dims[i - 1] of the input.
    Source: keras/src/layers/reshaping/permute.py.
    """

    dims: Any = attribute("any", doc="permutation of the axes, counted from 1")

    def forward(self, x: Array) -> Array:
        rank = len(x.shape)
        need(
            isinstance(self.dims, list) and sorted(self.dims) == list(range(1, rank)),
            f"dims must be a permutation of the axes 1 to {rank - 1}, got {self.dims}",
        )
        return x.transpose(0, *self.dims)


@layer("RepeatVector")
class RepeatVector(KerasLayer):
    """Repeat a vector as the steps of a sequence.

    (N, C) to (N, n, C).
    Source: keras/src/layers/reshaping/repeat_vector.py.
    """

    n: int = attribute("int64", doc="number of steps")

    def forward(self, x: Array) -> Array:
        need(
            len(x.shape) == 2 and self.n > 0,
            f"takes an input (N, C) and n > 0, got {tuple(x.shape)} and n={self.n}",
        )
        return np.repeat(x[:, None], self.n, axis=1)


class Borders(Spatial):
    """A layer with two numbers, before and after, for each spatial axis."""

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
