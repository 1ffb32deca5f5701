"""Tests of resizing."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_resize_matches_tensorflow = as_tensorflow(
    "ResizeBilinear", "ResizeNearestNeighbor", "ResizeBicubic", "CropAndResize"
)
X, BOTH = np.zeros((1, 5, 4, 4), np.float32), {"align_corners": True, "half_pixel_centers": True}
test_rejects_align_corners_with_half_pixel_centers = rejects(
    "ResizeBilinear", BOTH, X, np.int32([2, 2]), text="align_corners and half_pixel_centers exclude each other"
)
test_rejects_single_size = rejects(
    "ResizeBicubic", {}, X, np.int32([2]), text="size must be a height and a width of 1 or more, got [2]"
)
test_rejects_other_rank = rejects(
    "ResizeNearestNeighbor", {}, X[0], np.int32([2, 2]), text="the input must have 4 axes"
)
test_crop_rejects_unknown_method = rejects(
    "CropAndResize",
    {"method": "cubic"},
    *(X, np.zeros((1, 4), np.float32), np.int32([0]), np.int32([2, 2])),
    text="method must be bilinear or nearest, got 'cubic'",
)
