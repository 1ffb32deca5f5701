"""PixelShuffle (sub-pixel convolution)."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._resampling import need_plane, plane_of
from anylayer.network import Array


@layer("PixelShuffle")
class PixelShuffle(Layer):
    """Move channels into pixels of blocks of r x r, with r = upscale_factor.

    (N, C * r * r, H, W) to (N, C, H * r, W * r). Pixel (dy, dx) of a block of channel c comes from channel c * r *
    r + dy * r + dx (arXiv 1609.05158).
    Source: wj1tr0y/gait_extractor src/caffe/layers/pixel_shuffle_layer.cpp.
    """

    message = "pixel_shuffle_param"
    upscale_factor: int = field(1, "int32", doc="the output's size over the input's; at least 2")

    def forward(self, x: Array) -> Array:
        h, w = plane_of(x)
        r = self.upscale_factor
        need(r > 1, f"upscale_factor must be at least 2, got {r}")
        need(x.shape[1] % r**2 == 0, f"upscale_factor={r} squared does not divide {x.shape[1]} channels")
        need_plane(h * r, w * r)
        return ops.depth_to_space(x, r, mode="CRD")
