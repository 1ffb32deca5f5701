"""ChannelNorm (FlowNet 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Layer, layer
from anylayer.layers.caffe._resampling import plane_of
from anylayer.network import Array


@layer("ChannelNorm")
class ChannelNorm(Layer):
    """Compute the Euclidean length of the channels of each pixel.

    (N, C, H, W) to (N, 1, H, W).
    Source: lmb-freiburg/flownet2 src/caffe/layers/channel_norm_layer.cu.
    """

    def forward(self, x: Array) -> Any:
        plane_of(x)
        return np.sqrt((x * x).sum(axis=1, keepdims=True))
