"""Threshold."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Layer, field, layer
from anylayer.network import Array


@layer("Threshold")
class Threshold(Layer):
    """Compute 1 where x > threshold, else 0.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/threshold_layer.cpp.
    """

    elementwise = True
    message = "threshold_param"
    numbers = {"": 128}
    threshold: float = field(1, "float", 0.0, doc="values above it give 1")

    def forward(self, x: Array) -> Array:
        return (x > np.float32(self.threshold)).astype(np.float32)
