"""ReorgYolo (Intel's Caffe)."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Layer, field, layer
from anylayer.layers.caffe._reorg import darknet


@layer("ReorgYolo")
class ReorgYolo(Layer):
    """Pixels into channels as Darknet does it: (N, C, H, W) to (N, C * s * s, H / s, W / s), s = `stride`.

    See `darknet` in _reorg.py. Source: openvinotoolkit/training_toolbox_caffe
    src/caffe/layers/reorg_yolo_layer.cpp.
    """

    message = "reorg_yolo_param"
    numbers = {"": 215, "model-optimizer": 215}
    stride: int = field(1, "int32", 1, doc="the side of a block of pixels")

    def forward(self, x: Any) -> Any:
        return darknet(x, self.stride)
