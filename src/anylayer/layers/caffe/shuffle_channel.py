"""ShuffleChannel (ShuffleNet)."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.network import Array


@layer("ShuffleChannel")
class ShuffleChannel(Layer):
    """Shuffle the channels: reshape them to (group, C / group), transpose, and flatten.

    (N, C, ...) to the same shape.
    Source: farmingyard/ShuffleNet src/caffe/layers/shuffle_channel_layer.cpp; arXiv 1707.01083.
    """

    message = "shuffle_channel_param"
    numbers = {"sophgo": 164, "ascend": 159, "shufflenet": 164, "caffe2onnx": 164, "synopsys": 166, "ncnn": 145}
    group: int = field(1, "uint32", 1, doc="number of groups; must divide the channels")

    def forward(self, x: Array) -> Array:
        need(len(x.shape) >= 2, f"needs an input (N, C, ...), got shape {tuple(x.shape)}")
        n, c, *rest = x.shape
        need(self.group > 0 and c % self.group == 0, f"group={self.group} does not divide {c} channels")
        return x.reshape(n, self.group, c // self.group, *rest).swapaxes(1, 2).reshape(x.shape)
