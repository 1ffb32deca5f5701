"""HardSigmoid."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, layer
from anylayer.network import Array


@layer("HardSigmoid")
class HardSigmoid(Layer):
    """Compute 0.2 * x + 0.5, clipped to 0..1.

    The output has the shape of the input.
    Source: eric612/MobileNet-YOLO src/caffe/layers/hard_sigmoid_layer.cpp.
    """

    elementwise = True

    def forward(self, x: Array) -> Array:
        return ops.hard_sigmoid(x, 0.2, 0.5)
