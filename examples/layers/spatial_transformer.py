"""SpatialTransformer: sample a picture bilinearly at the points of an affine transformation.

The C++ builds the grid, multiplies it by theta for each image, and then visits every output pixel, its four
neighbours and every channel. Here each of the four neighbours is one gather of whole pictures, with a weight that
is 0 if the neighbour lies outside.
"""

import numpy as np

import anylayer


@anylayer.layer("SpatialTransformer")
class SpatialTransformerLayer:
    """(N, C, H, W) and theta (N, 6) = t11 t12 t13 t21 t22 t23, rows before columns, to (N, C, rows, columns)."""

    def __init__(self, params, blobs):
        self.size = int(params.get("output_H", -1)), int(params.get("output_W", -1))

    def output(self, shape):
        return [given if given > 0 else own for given, own in zip(self.size, shape[2:])]

    def getMemoryShapes(self, inputs):
        return [[*inputs[0][:2], *self.output(inputs[0])]]

    def forward(self, inputs):
        x, theta = inputs[0], inputs[1].reshape(-1, 2, 3)
        n, c, h, w = x.shape
        rows, columns = self.output(x.shape)
        grid = np.stack(
            np.broadcast_arrays(
                (np.arange(rows, dtype=np.float32) * np.float32(2 / rows) - 1)[:, None],
                (np.arange(columns, dtype=np.float32) * np.float32(2 / columns) - 1)[None],
                np.float32(1),
            )
        ).reshape(3, -1)
        place = (theta @ grid + 1) * np.array([[h / 2], [w / 2]], np.float32)  # (N, 2, rows * columns)
        low = np.floor(place)
        plane, total = x.reshape(n, c, h * w), 0
        for down in (0, 1):
            for right in (0, 1):
                at = low + np.array([[down], [right]], np.float32)
                near = 1 - np.abs(place - at)
                inside = (at[:, 0] >= 0) & (at[:, 0] < h) & (at[:, 1] >= 0) & (at[:, 1] < w)
                weight = near[:, 0] * near[:, 1] * inside.astype(np.float32)
                row = np.clip(at[:, 0], np.float32(0), np.float32(h - 1)).astype(np.int64)
                column = np.clip(at[:, 1], np.float32(0), np.float32(w - 1)).astype(np.int64)
                index = np.broadcast_to((row * w + column)[:, None], (n, c, rows * columns))
                total = total + np.take_along_axis(plane, index, axis=2) * weight[:, None]
        return [total.reshape(n, c, rows, columns)]
