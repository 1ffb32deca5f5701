"""Reshape."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.layer.arguments import target_shape
from anylayer.layers.caffe._messages import BlobShape, no_effect
from anylayer.network import Array


@layer("Reshape")
class Reshape(Layer):
    """Replace `num_axes` axes from `axis` on by axes of the sizes `shape`.

    Source: BVLC/caffe src/caffe/layers/reshape_layer.cpp.
    """

    message = "reshape_param"
    numbers = {"": 133}
    shape: BlobShape = field(
        1, BlobShape, doc="new sizes; 0 copies the size of that input axis, one -1 is inferred"
    )
    axis: int = field(2, "int32", 0, doc="first axis replaced; -1: after the last one")
    num_axes: int = field(3, "int32", -1, doc="number of axes replaced; -1: all the rest, 0: insert the sizes")

    pixelshuffler: int = no_effect(4, "uint32", 0)

    def setup(self) -> None:
        dims = self.shape.dim
        need(dims.count(-1) <= 1, f"shape may have one -1, got {list(dims)}")
        need(all(d >= -1 for d in dims), f"sizes must be positive, 0 or -1, got {list(dims)}")
        need(self.num_axes >= -1, f"num_axes must be -1 or more, got {self.num_axes}")

    def forward(self, x: Array) -> Array:
        need(not self.in_place, "cannot work in place: give the top another name than the bottom")
        rank = len(x.shape)
        start = self.axis if self.axis >= 0 else rank + self.axis + 1
        need(
            0 <= start <= rank,
            f"axis must lie in {-rank - 1}..{rank} for an input of shape {tuple(x.shape)}, got {self.axis}",
        )
        end = rank if self.num_axes == -1 else start + self.num_axes
        need(
            end <= rank, f"axis={start} and num_axes={self.num_axes} reach past the input's shape {tuple(x.shape)}"
        )
        sizes = target_shape(x.shape[start:end], self.shape.dim, "shape", x.shape[start:])
        return x.reshape((*x.shape[:start], *sizes, *x.shape[end:]))
