"""MVN (mean and variance normalization)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.network import Array


@layer("MVN")
class MVN(Layer):
    """Compute (x - mean) / (standard deviation + eps) of each sample, per channel or over all channels.

    (N, C, H, W) to the same shape. An input of lower rank gets axes of size 1 at the end, and the output keeps
    them.
    Source: BVLC/caffe src/caffe/layers/mvn_layer.cpp.
    """

    elementwise = True
    message = "mvn_param"
    numbers = {"": 120}
    normalize_variance: bool = field(1, "bool", True, doc="divide by the standard deviation")
    across_channels: bool = field(2, "bool", False, doc="one mean and deviation for all channels")
    eps: float = field(3, "float", 1e-9, doc="added to the standard deviation")

    def forward(self, x: Array) -> Any:
        need(len(x.shape) <= 4, f"needs an input of at most 4 axes (N, C, H, W), got shape {tuple(x.shape)}")
        x = x.reshape(*x.shape, *(1,) * (4 - len(x.shape)))
        axes = (1, 2, 3) if self.across_channels else (2, 3)
        centred = x - x.mean(axis=axes, keepdims=True)
        if not self.normalize_variance:
            return centred
        variance = (centred * centred).mean(axis=axes, keepdims=True)
        return centred / (np.sqrt(variance) + np.float32(self.eps))
