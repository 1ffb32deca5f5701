"""ELU."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, field, layer
from anylayer.network import Array


@layer("ELU")
class ELU(Layer):
    """Compute x where x > 0, else alpha * (exp(x) - 1).

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/elu_layer.cpp; arXiv 1511.07289.
    """

    elementwise = True
    message = "elu_param"
    numbers = {"": 140}
    alpha: float = field(1, "float", 1.0, doc="negative values approach -alpha")

    def forward(self, x: Array) -> Array:
        return ops.elu(x, self.alpha)
