"""Reorg3d (Darknet of AlexeyAB)."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer
from anylayer.layers.caffe._reorg import into_channels, into_pixels
from anylayer.network import Array


@layer("Reorg3d")
class Reorg3d(Layer):
    """Move pixels into channels, keeping the channels of a pixel together (Darknet of AlexeyAB).

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`. Channel (dy * s + dx) * C + c holds pixel (dy,
    dx) of each block. With `reverse`, the inverse.
    Source: AlexeyAB/darknet src/reorg_layer.c, src/blas.c reorg_cpu ([reorg3d]; its [reorg] is the rule of Reorg).
    """

    message = "reorg_param"
    stride: int = field(1, "uint32", doc="side of the blocks of pixels")
    reverse: bool = field(2, "bool", False, doc="move channels into pixels")

    def forward(self, x: Array) -> Array:
        return into_pixels(x, self.stride) if self.reverse else into_channels(x, self.stride)
