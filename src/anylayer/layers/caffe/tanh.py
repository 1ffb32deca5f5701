"""TanH."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Layer, field, layer
from anylayer.layers.caffe._messages import ENGINE
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
    engine: str = field(1, ENGINE, "DEFAULT", doc="Caffe's implementation; no effect here")

    def forward(self, x: Array) -> Array:
        return np.tanh(x)
