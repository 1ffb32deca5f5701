"""UpsampleDarknet (synopsys-caffe)."""

from __future__ import annotations

from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layers.caffe._resampling import plane_of, repeat_pixels


@layer("UpsampleDarknet")
class UpsampleDarknet(Layer):
    """Repeat each pixel `stride` x `stride` times.

    (N, C, H, W) to (N, C, H * stride, W * stride).
    Source: synopsys-caffe src/caffe/proto/caffe.proto, upsample_darknet_layer.cpp.
    """

    message = "upsample_darknet_param"
    numbers = {"": 209, "synopsys": 209}
    stride: int = field(1, "int32", 1, doc="number of repetitions of each pixel in both directions")

    def forward(self, x: Array) -> Array:
        plane_of(x)
        need(self.stride >= 1, f"stride must be at least 1, got {self.stride}")
        return x if self.stride == 1 else repeat_pixels(x, self.stride, self.stride)
