"""Softmax."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, field, layer
from anylayer.layers.caffe._axes import canonical
from anylayer.layers.caffe._messages import engine_field
from anylayer.network import Array


@layer("Softmax")
class Softmax(Layer):
    """Compute exp(x), divided by its sum along `axis`.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/softmax_layer.cpp.
    """

    elementwise = True
    message = "softmax_param"
    numbers = {"": 125}
    engine: str = engine_field(1)
    axis: int = field(2, "int32", 1, doc="axis whose elements sum to 1")

    def forward(self, x: Array) -> Array:
        return ops.softmax(x, axis=canonical(self.axis, x))
