"""Sigmoid."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, layer
from anylayer.layers.caffe._messages import engine_field
from anylayer.network import Array


@layer("Sigmoid")
class Sigmoid(Layer):
    """Compute the logistic function 1 / (1 + exp(-x)).

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/sigmoid_layer.cpp.
    """

    elementwise = True
    message = "sigmoid_param"
    numbers = {"": 124}
    engine: str = engine_field(1)

    def forward(self, x: Array) -> Array:
        return ops.sigmoid(x)
