"""Sigmoid."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, field, layer
from anylayer.layers.caffe._messages import ENGINE
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
    engine: str = field(1, ENGINE, "DEFAULT", doc="Caffe's implementation; no effect here")

    def forward(self, x: Array) -> Array:
        return ops.sigmoid(x)
