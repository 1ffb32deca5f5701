"""ReorgYolo (Intel's Caffe)."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer
from anylayer.layers.caffe._reorg import darknet
from anylayer.network import Array


@layer("ReorgYolo")
class ReorgYolo(Layer):
    """Move pixels into channels in the order of Darknet.

    (N, C, H, W) to (N, C * s * s, H / s, W / s) with s = `stride`; see `darknet` in _reorg.py.
    Source: openvinotoolkit/training_toolbox_caffe src/caffe/layers/reorg_yolo_layer.cpp.
    """

    message = "reorg_yolo_param"
    numbers = {"": 215, "model-optimizer": 215}
    stride: int = field(1, "int32", 1, doc="side of the blocks of pixels")

    def forward(self, x: Array) -> Array:
        return darknet(x, self.stride)
