"""Tile."""

from __future__ import annotations

from math import prod

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.network import Array


@layer("Tile")
class Tile(Layer):
    """Repeat the input `tiles` times along `axis`.

    Source: BVLC/caffe src/caffe/layers/tile_layer.cpp.
    """

    message = "tile_param"
    numbers = {"": 138}
    axis: int = field(1, "int32", 1, doc="axis to repeat along")
    tiles: int = field(2, "int32", doc="number of copies")

    def setup(self) -> None:
        need(self.tiles > 0, f"tiles must be positive, got {self.tiles}")

    def forward(self, x: Array) -> Array:
        axis = canonical(self.axis, x)
        limit = 2**31 - 1  # limit on the elements of a blob in Caffe's blob.cpp
        count = prod(d for d in x.shape if isinstance(d, int)) * self.tiles
        need(
            count <= limit,
            f"tiles={self.tiles} makes {count} elements of {tuple(x.shape)}, at most {limit} are supported",
        )
        return np.tile(x, tuple(self.tiles if i == axis else 1 for i in range(len(x.shape))))
