"""Layers that reshape, permute, repeat, pad and crop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.layer import attribute, need
from anylayer.layer.arguments import restored
from anylayer.layer.arguments import target_shape as sizes_after
from anylayer.layers._table import operators, row
from anylayer.layers.keras._base import KerasLayer, Spatial, by_rank, numbers
from anylayer.network import Array


def _flatten(x: Array, *, data_format: Any) -> Array:
    if data_format == "channels_first" and len(x.shape) > 2:
        x = restored(x, "channels_last")
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def _reshape(x: Array, *, target_shape: Any) -> Array:
    need(
        isinstance(target_shape, list) and all(type(d) is int for d in target_shape),
        f"target_shape must be a list of sizes, got {target_shape!r}",
    )
    return x.reshape(x.shape[0], *sizes_after(x.shape[1:], target_shape, "target_shape"))


def _permute(x: Array, *, dims: Any) -> Array:
    rank = len(x.shape)
    need(
        isinstance(dims, list) and sorted(dims) == list(range(1, rank)),
        f"dims must be a permutation of the axes 1 to {rank - 1}, got {dims}",
    )
    return x.transpose(0, *dims)


def _repeat(x: Array, *, n: int) -> Array:
    need(len(x.shape) == 2 and n > 0, f"takes an input (N, C) and n > 0, got {tuple(x.shape)} and n={n}")
    return np.repeat(x[:, None], n, axis=1)


operators(
    KerasLayer,
    "Source: keras/src/layers/reshaping/{}.py.",
    {
        "Flatten": row("Flatten each item to a vector, in channels-last order.", _flatten, "flatten",
            "(N, ...) to (N, elements).",
            data_format=attribute(
                "any", "channels_last", doc="channels_last: (N, ..., C); channels_first: (N, C, ...)")),
        "Reshape": row("Reshape each item.", _reshape, "reshape", "(N, ...) to (N, *target_shape).",
            target_shape=attribute("any", doc="shape of the output without the batch; one size may be -1")),
        "Permute": row("Permute the axes of each item.", _permute, "permute",
            "(N, ...) to (N, ...), where axis i of the output is axis dims[i - 1] of the input.",
            dims=attribute("any", doc="permutation of the axes, counted from 1")),
        "RepeatVector": row("Repeat a vector as the steps of a sequence.", _repeat, "repeat_vector",
            "(N, C) to (N, n, C).", n=attribute("int64", doc="number of steps")),
    },
    __module__=__name__,
)  # fmt: skip


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

by_rank(ZeroPadding, "Pad {axes} with zeros.", _SHAPES % ("longer by its padding", "zero_padding{rank}d.py."))
by_rank(
    Cropping,
    "Remove cells at the borders of {axes}.",
    _SHAPES % ("shorter by its cropping", "cropping{rank}d.py."),
)
