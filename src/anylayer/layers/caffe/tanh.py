"""TanH."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Layer, layer
from anylayer.layers.caffe._messages import engine_field
from anylayer.network import Array


@layer("TanH")
class TanH(Layer):
    """Compute the hyperbolic tangent of each element.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/tanh_layer.cpp.
    """

    elementwise = True
    message = "tanh_param"
    numbers = {"": 127}
    engine: str = engine_field(1)

    def forward(self, x: Array) -> Array:
        return np.tanh(x)
