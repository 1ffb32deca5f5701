"""Swish."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer
from anylayer.network import Array


@layer("Swish")
class Swish(Layer):
    """Compute x * sigmoid(beta * x).

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/swish_layer.cpp; arXiv 1710.05941.
    """

    elementwise = True
    message = "swish_param"
    numbers = {"": 147}
    beta: float = field(1, "float", 1.0, doc="factor of x inside the sigmoid")

    def forward(self, x: Array) -> Any:
        return x * ops.sigmoid(x if self.beta == 1 else x * np.float32(self.beta))
