"""Bias."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._axes import broadcast_shape, weight_shape
from anylayer.layers.caffe._messages import FillerParameter
from anylayer.network import Array


@layer("Bias")
class Bias(Layer):
    """Add a bias whose axes start at `axis` of the input: the second input, or a weight.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/bias_layer.cpp.
    """

    elementwise = True
    message = "bias_param"
    numbers = {"": 141}
    axis: int = field(1, "int32", 1, doc="first axis of the input the bias lies on")
    num_axes: int = field(2, "int32", 1, doc="axes a weight covers; -1: all the rest, 0: one value")
    filler: FillerParameter = field(3, FillerParameter, doc="values of the weight without a file; default 0")

    def forward(self, *inputs: Array) -> Array:
        need(len(inputs) in (1, 2), f"takes 1 or 2 inputs, got {len(inputs)}")
        x = inputs[0]
        if len(inputs) == 2:
            bias = inputs[1]
        else:
            bias = self.blob(0, weight_shape(x, self.axis, self.num_axes), self.filler, what="bias")
        return x + bias.reshape(broadcast_shape(x, bias.shape, self.axis, "a bias"))
