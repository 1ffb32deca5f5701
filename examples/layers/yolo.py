"""Yolo of Ascend, version 3: the logistic function of all values except width and height, in three outputs.

The C++ loops over boxes, cells and values with an index for each. Here one reshape separates the axes (image, box,
value, cell), and slices of the value axis are all x, all objectness values, all classes.
"""

import numpy as np

import anylayer


@anylayer.layer("Yolo")
class YoloLayer:
    """(N, boxes * (5 + classes), H, W) to coordinates x, y, h, w (N, 4 * boxes, H * W), objectness (N, boxes *
    H * W) and classes (N, classes, boxes * H * W)."""

    def __init__(self, params, blobs):
        self.boxes, self.classes = int(params.get("boxes", 3)), int(params.get("classes", 80))

    def getMemoryShapes(self, inputs):
        n, _, h, w = inputs[0]
        cells = h * w
        return [[n, 4 * self.boxes, cells], [n, self.boxes * cells], [n, self.classes, self.boxes * cells]]

    def forward(self, inputs):
        x = inputs[0]
        n, _, h, w = x.shape
        v = x.reshape(n, self.boxes, 5 + self.classes, h * w)
        chance = 1 / (1 + np.exp(-v))
        place = np.concatenate([chance[:, :, :2], v[:, :, 3:4], v[:, :, 2:3]], axis=2)
        return [
            place.swapaxes(1, 2).reshape(n, 4 * self.boxes, h * w),
            chance[:, :, 4].reshape(n, self.boxes * h * w),
            chance[:, :, 5:].swapaxes(1, 2).reshape(n, self.classes, self.boxes * h * w),
        ]
