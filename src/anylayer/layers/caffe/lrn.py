"""LRN (local response normalization)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, Layer, field, layer, need
from anylayer.layers.caffe._messages import engine_field
from anylayer.network import Array


@layer("LRN")
class LRN(Layer):
    """Divide each element by a power of the mean square of its neighbourhood.

    (N, C, H, W) to the same shape.

        ACROSS_CHANNELS: x * (k + alpha / local_size * sum of squares over local_size channels) ** -beta
        WITHIN_CHANNEL:  x * (1 + alpha * mean of squares over local_size x local_size pixels) ** -beta, without k
    Source: BVLC/caffe src/caffe/layers/lrn_layer.cpp.
    """

    elementwise = True
    message = "lrn_param"
    numbers = {"": 118}
    local_size: int = field(
        1, "uint32", 5, doc="size of the neighbourhood in channels, or in pixels per side; odd"
    )
    alpha: float = field(2, "float", 1.0, doc="factor of the mean square")
    beta: float = field(3, "float", 0.75, doc="exponent")
    norm_region: str = field(
        4, Enum("ACROSS_CHANNELS", "WITHIN_CHANNEL"), "ACROSS_CHANNELS", doc="the neighbourhood"
    )
    k: float = field(5, "float", 1.0, doc="added to the mean square; ACROSS_CHANNELS only")
    engine: str = engine_field(6)

    def setup(self) -> None:
        need(self.local_size % 2 == 1, f"local_size must be odd, got {self.local_size}")

    def forward(self, x: Array) -> Any:
        need(len(x.shape) == 4, f"needs an input (N, C, H, W), got shape {tuple(x.shape)}")
        size = self.local_size
        if self.norm_region == "ACROSS_CHANNELS":
            return ops.lrn(x, size, alpha=self.alpha, beta=self.beta, bias=self.k)
        mean = ops.average_pool(x * x, (size, size), pads=size // 2, count_include_pad=True)
        return x * (np.float32(1) + mean * np.float32(self.alpha)) ** np.float32(-self.beta)
