"""GRN (Intel's Caffe)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.network import Array


@layer("GRN")
class GRN(Layer):
    """Compute x / sqrt(bias + sum of x * x over the channels).

    (N, C, H, W) to the same shape.
    Source: openvinotoolkit/training_toolbox_caffe src/caffe/layers/grn_layer.cpp.
    """

    message = "grn_param"
    elementwise = True
    numbers = {"model-optimizer": 213}
    bias: float = field(1, "float", 1.0, doc="added to the sum of squares; not negative")

    def forward(self, x: Array) -> Any:
        need(self.bias >= 0, f"bias must not be negative, got {self.bias:g}")
        need(2 <= len(x.shape) <= 4, f"input 0 must be of shape (N, C, H, W), got {tuple(x.shape)}")
        return x / np.sqrt((x * x).sum(axis=1, keepdims=True) + np.float32(self.bias))
