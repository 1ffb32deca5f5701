"""Resizing."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_resize = as_tensorflow("ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "CropAndResize")
X, BOTH = np.zeros((1, 5, 4, 4), np.float32), {"align_corners": True, "half_pixel_centers": True}
test_flags = rejects(
    "ResizeBilinear", BOTH, X, np.int32([2, 2]), text="align_corners and half_pixel_centers exclude each other"
)
test_size = rejects(
    "ResizeBicubic", {}, X, np.int32([2]), text="size must be a height and a width of 1 or more, got [2]"
)
test_rank = rejects("ResizeNearestNeighbor", {}, X[0], np.int32([2, 2]), text="the input must have 4 axes")
test_method = rejects(
    "CropAndResize",
    {"method": "cubic"},
    *(X, np.zeros((1, 4), np.float32), np.int32([0]), np.int32([2, 2])),
    text="method must be bilinear or nearest, got 'cubic'",
)
