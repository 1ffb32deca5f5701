"""Im2col."""

from __future__ import annotations

from math import prod

import numpy as np

from anylayer.layer import layer
from anylayer.layers.caffe._convolution import ConvolutionLayer
from anylayer.network import Array


@layer("Im2col")
class Im2col(ConvolutionLayer):
    """Return the cells of each window as channels.

    (..., C, spatial...) to (..., C * kernel cells, windows along each axis). Channel c * cells + i holds cell i of
    each window in channel c, where the cells of a kernel are counted in C order.
    Source: BVLC/caffe src/caffe/layers/im2col_layer.cpp.
    """

    def forward(self, x: Array) -> Array:
        windows = self.windows(x)
        axis = windows.axis
        before, channels, sizes = tuple(x.shape[:axis]), x.shape[axis], tuple(x.shape[axis + 1 :])
        counts, spatial = windows.counts(sizes), len(sizes)
        pads = windows.both_pads(sizes)
        y = x.reshape(prod(before), channels, *sizes)
        if any(pads):
            y = np.pad(y, [(0, 0), (0, 0), *zip(pads[:spatial], pads[spatial:])])
        for i, (k, s, d, c) in enumerate(zip(windows.kernel, windows.strides, windows.dilations, counts)):
            seen = np.arange(k)[:, None] * d + np.arange(c) * s
            y = np.take(y, seen.reshape(-1), axis=2 + i)
        y = y.reshape(prod(before), channels, *(n for pair in zip(windows.kernel, counts) for n in pair))
        y = y.transpose(0, 1, *range(2, 2 + 2 * spatial, 2), *range(3, 3 + 2 * spatial, 2))
        return y.reshape(*before, channels * prod(windows.kernel), *counts)
