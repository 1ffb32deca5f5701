"""Upsample of Darknet and Ascend: repeat every value `stride` times along both axes, multiplied by `scale`.

The C++ has five nested loops (image, channel, row, column, copies). np.repeat does this for a whole axis.
"""

import numpy as np

import anylayer


@anylayer.layer("Upsample")
class UpsampleLayer:
    """(N, C, H, W) to (N, C, H * stride, W * stride)."""

    def __init__(self, params, blobs):
        self.stride, self.scale = int(params.get("stride", 2)), np.float32(params.get("scale", 1))

    def getMemoryShapes(self, inputs):
        n, c, h, w = inputs[0]
        return [[n, c, h * self.stride, w * self.stride]]

    def forward(self, inputs):
        rows = np.repeat(inputs[0], self.stride, axis=2)
        return [np.repeat(rows, self.stride, axis=3) * self.scale]
