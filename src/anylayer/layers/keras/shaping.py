"""Flatten, Reshape, Permute and RepeatVector."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.arguments import target_shape
from anylayer.layer.fields import attribute
from anylayer.layers.keras._base import KerasLayer
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
