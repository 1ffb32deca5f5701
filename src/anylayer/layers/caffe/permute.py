"""Permute (SSD)."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.network import Array


@layer("Permute")
class Permute(Layer):
    """Permute the axes: output axis i is input axis order[i]; axes not listed follow in their order.

    Source: weiliu89/caffe (branch ssd) src/caffe/layers/permute_layer.cpp.
    """

    message = "permute_param"
    numbers = {
        "sophgo": 202,
        "": 202,
        "ssd": 202,
        "caffe-plus": 150,
        "atlas": 151,
        "opencv": 148,
        "model-optimizer": 154,
    }
    order: tuple[int, ...] = field(1, "uint32", repeated=True, doc="axes of the input, in the order of the output")

    def forward(self, x: Array) -> Array:
        rank = len(x.shape)
        for axis in self.order:
            need(axis < rank, f"order must list axes below {rank} for shape {tuple(x.shape)}, got {axis}")
        need(
            len(set(self.order)) == len(self.order),
            f"order names an axis twice: {', '.join(map(str, self.order))}",
        )
        return x.transpose(*self.order, *(axis for axis in range(rank) if axis not in self.order))
