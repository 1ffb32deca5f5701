"""Transpose (CTPN, and forks with connectionist temporal classification)."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.network import Array


@layer("Transpose")
class Transpose(Layer):
    """Permute the axes: output axis i is input axis dim[i].

    Source: tianzhi0549/caffe (CTPN) src/caffe/layers/transpose_layer.cpp.
    """

    message = "transpose_param"
    dim: tuple[int, ...] = field(
        1, "int32", repeated=True, doc="all axes of the input, in the order of the output"
    )

    def forward(self, x: Array) -> Array:
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        rank = len(x.shape)
        need(
            sorted(self.dim) == list(range(rank)),
            f"dim must name each axis of shape {tuple(x.shape)} once, 0..{rank - 1}, got {list(self.dim)}",
        )
        return x.transpose(*self.dim)
