"""Correlation (FlowNet)."""

from __future__ import annotations

import numpy as np

from anylayer.layer import layer
from anylayer.layers.caffe._correlation import CorrelationLayer
from anylayer.network import Array


@layer("Correlation")
class Correlation(CorrelationLayer):
    """Correlate each patch of input 0 with the patches of input 1 around its place (FlowNet, arXiv 1504.06852).

    Two maps (N, C, H, W) to (N, (2 r + 1)^2, H', W') with r = max_displacement / stride_2. Output channel (dy + r)
    * (2 r + 1) + (dx + r) is the mean over the patch of the products, or of the absolute differences, with the
    patch dy * stride_2 rows below and dx * stride_2 columns to the right. The maps are padded with zeros.
    Source: lmb-freiburg/flownet2 src/caffe/layers/correlation_layer.cpp, correlation_layer.cu.
    """

    def forward(self, a: Array, b: Array) -> Array:
        far, pad = self.max_displacement, self.pad
        at = self.places(a, b, (far, far), (pad, pad))
        around = ((0, 0), (0, 0), (pad, pad), (pad, pad))
        radius = far // self.stride_2
        steps = np.arange(-radius, radius + 1) * self.stride_2
        return self.compare(np.pad(a, around), np.pad(b, around), at, steps, steps)
