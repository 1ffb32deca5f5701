"""Tests of convolutions fused with a resize and mirrored padding."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

X, W = np.zeros((1, 4, 4, 2), np.float32), np.zeros((3, 3, 2, 1), np.float32)
HOW = {"strides": [1, 1, 1, 1], "padding": "VALID", "mode": "REFLECT"}
PADS = np.int32([[0, 0], [4, 0], [0, 0], [0, 0]])

test_fused_conv_matches_tensorflow = as_tensorflow("FusedPadConv2D", "FusedResizeAndPadConv2D")
test_rejects_more_padding_than_pixels = rejects(
    "FusedPadConv2D", HOW, X, PADS, W, text="paddings (4, 0) of axis 1 exceed the 3 elements that can be mirrored"
)
test_rejects_size_zero = rejects(
    "FusedResizeAndPadConv2D",
    HOW,
    X,
    np.int32([0, 3]),
    PADS,
    W,
    text="size must be a height and a width of 1 or more, got [0, 3]",
)
