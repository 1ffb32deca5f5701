"""Scale."""

from __future__ import annotations

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._axes import broadcast_shape, weight_shape
from anylayer.layers.caffe._messages import FillerParameter, constant
from anylayer.network import Array


@layer("Scale")
class Scale(Layer):
    """Multiply by a scale whose axes start at `axis` of the input, the second input or a weight; add a bias.

    The output has the shape of the input.
    Weights: the scale unless it is an input; the bias, of the shape of the scale, with `bias_term`.
    Source: BVLC/caffe src/caffe/layers/scale_layer.cpp.
    """

    elementwise = True
    message = "scale_param"
    numbers = {"": 142}
    axis: int = field(1, "int32", 1, doc="first axis of the input the scale lies on")
    num_axes: int = field(2, "int32", 1, doc="axes a weight covers; -1: all the rest, 0: one value")
    filler: FillerParameter = field(3, FillerParameter, doc="values of the scale without a file; default 1")
    bias_term: bool = field(4, "bool", False, doc="add a bias")
    bias_filler: FillerParameter = field(5, FillerParameter, doc="values of the bias without a file; default 0")

    def forward(self, *inputs: Array) -> Array:
        need(len(inputs) in (1, 2), f"takes 1 or 2 inputs, got {len(inputs)}")
        x = inputs[0]
        if len(inputs) == 2:
            scale = inputs[1]
        else:
            filler = self.filler if self.has("filler") else constant(1)
            scale = self.blob(0, weight_shape(x, self.axis, self.num_axes), filler, what="scale")
        lies = broadcast_shape(x, scale.shape, self.axis, "a scale")
        y = x * scale.reshape(lies)
        if not self.bias_term:
            return y
        bias = self.blob(2 - len(inputs), tuple(scale.shape), self.bias_filler, what="bias")
        return y + bias.reshape(lies)
