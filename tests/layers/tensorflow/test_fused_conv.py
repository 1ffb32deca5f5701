"""Convolutions fused with a resize and with mirrored padding."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

X, W = np.zeros((1, 4, 4, 2), np.float32), np.zeros((3, 3, 2, 1), np.float32)
HOW = {"strides": [1, 1, 1, 1], "padding": "VALID", "mode": "REFLECT"}
PADS = np.int32([[0, 0], [4, 0], [0, 0], [0, 0]])

test_fused_conv = as_tensorflow("FusedPadConv2D", "FusedResizeAndPadConv2D")
test_pads_are_mirrored_cells = rejects(
    "FusedPadConv2D", HOW, X, PADS, W, text="paddings (4, 0) of axis 1 are more than its 3 cells to mirror"
)
test_size = rejects(
    "FusedResizeAndPadConv2D",
    HOW,
    X,
    np.int32([0, 3]),
    PADS,
    W,
    text="size must be a height and a width of 1 or more, got [0, 3]",
)
