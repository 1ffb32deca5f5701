"""Correlation1D (DispNet)."""

from __future__ import annotations

import numpy as np

from anylayer.layer import layer, need
from anylayer.layers.caffe._correlation import CorrelationLayer
from anylayer.network import Array


@layer("Correlation1D")
class Correlation1D(CorrelationLayer):
    """Correlate each patch of input 0 with the patches of input 1 in its row (DispNet, arXiv 1512.02134).

    Two maps (N, C, H, W) to (N, displacements, H', W'). As Correlation, with displacements along the row only:
    from -r to r without single_direction, from 0 to r for 1, from -r - 1 to -1 for -1, where r = max_displacement
    / stride_2. The maps are padded with zeros on the left and right.
    Source: lmb-freiburg/flownet2 src/caffe/layers/correlation_layer1d.cpp, correlation_layer1d.cu.
    """

    def setup(self) -> None:
        super().setup()
        way = self.single_direction
        need(way in (-1, 0, 1), f"single_direction must be -1, 0 or 1, got {way}")

    def forward(self, a: Array, b: Array) -> Array:
        pad, radius = self.pad, self.max_displacement // self.stride_2
        rows, columns = self.places(a, b, (0, self.max_displacement), (0, pad))
        first = {-1: -radius - 1, 0: -radius, 1: 0}[self.single_direction]
        count = 2 * radius + 1 if self.single_direction == 0 else radius + 1
        steps = (first + np.arange(count)) * self.stride_2
        before = max(0, -(self.max_displacement + int(steps[0])))
        need(
            before <= pad,
            f"single_direction=-1 reads {before} columns before the padded row, where the reference reads the row "
            f"above; pad must be at least {before}, got {pad}",
        )
        left = np.pad(a, ((0, 0), (0, 0), (0, 0), (pad + before, pad)))
        right = np.pad(b, ((0, 0), (0, 0), (0, 0), (pad + before, pad)))
        return self.compare(left, right, [rows, columns + before], np.zeros(1, np.int64), steps)
