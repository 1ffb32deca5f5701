"""Normalize of SSD: each pixel's channels divided by their Euclidean length, times a learnt scale.

The C++ allocates buffers for the squares, for the norms and for ones to broadcast them, and loops over images and
pixels. NumPy broadcasts without buffers: a sum that keeps its axis divides the whole array.
"""

import numpy as np

import anylayer


@anylayer.layer("Normalize")
class NormalizeLayer:
    """(N, C, H, W) to the same shape; blob 0 is the scale, one value or C."""

    def __init__(self, params, blobs):
        # Without weights, use the filler `scale_filler { value: 20 }`: params has nested fields by their own name.
        scale = blobs[0] if blobs else np.float32(params.get("value", 1))
        self.scale = np.reshape(scale, (1, -1, 1, 1)).astype(np.float32)
        self.eps = np.float32(params.get("eps", 1e-10))
        self.axes = (1, 2, 3) if params.get("across_spatial", 1) in (1, "true") else 1

    def getMemoryShapes(self, inputs):
        return [inputs[0]]

    def forward(self, inputs):
        x = inputs[0]
        length = np.sqrt((x * x).sum(axis=self.axes, keepdims=True) + self.eps)
        return [x / length * self.scale]
