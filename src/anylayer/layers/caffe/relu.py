"""ReLU."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, field, layer
from anylayer.layers.caffe._messages import engine_field, no_effect
from anylayer.network import Array


@layer("ReLU")
class ReLU(Layer):
    """Compute x where x > 0, else negative_slope * x.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/relu_layer.cpp.
    """

    elementwise = True
    message = "relu_param"
    numbers = {"": 123}
    negative_slope: float = field(1, "float", 0.0, doc="factor of negative values (leaky ReLU)")
    engine: str = engine_field(2)

    fuse: bool = no_effect(3, "bool", False)

    def forward(self, x: Array) -> Array:
        return ops.relu(x) if self.negative_slope == 0 else ops.leaky_relu(x, self.negative_slope)
