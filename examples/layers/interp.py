"""Interp of DeepLab: bilinear interpolation with aligned corners, for a file that gives height and width.

The C++ of OpenCV's tutorial visits every pixel. For each output row it finds the row above, the row below and the
position between them; it does the same for each column; then it computes four products per pixel and channel. Rows
and columns are independent. So here one array of indices and weights per axis is enough, and whole rows are added
at once.
"""

import numpy as np

import anylayer


@anylayer.layer("Interp")
class InterpLayer:
    """(N, C, H, W) to (N, C, height, width)."""

    def __init__(self, params, blobs):
        # OpenCV passes fields of unknown messages as strings, anylayer passes numbers; int accepts both.
        self.height, self.width = int(params["height"]), int(params["width"])

    def getMemoryShapes(self, inputs):
        n, c, _, _ = inputs[0]
        return [[n, c, self.height, self.width]]

    def forward(self, inputs):
        return [stretch(stretch(inputs[0], 3, self.width), 2, self.height)]


def stretch(x, axis, size):
    """Interpolate linearly along one axis; the first and the last element stay."""
    last = x.shape[axis] - 1
    at = np.arange(size, dtype=np.float32) * (np.float32(last) / np.float32(max(size - 1, 1)))
    low = at.astype(int)
    part = (at - low).astype(np.float32).reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    return (1 - part) * np.take(x, low, axis) + part * np.take(x, np.minimum(low + 1, last), axis)
