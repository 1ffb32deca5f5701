"""Convolutions."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_conv = as_tensorflow("Conv2D", "Conv3D", "DepthwiseConv2dNative")
X, W = np.zeros((1, 5, 5, 4), np.float32), np.zeros((3, 3, 4, 2), np.float32)
ONES = {"strides": [1, 1, 1, 1], "padding": "SAME"}
test_channels = rejects(
    "Conv2D", ONES, X, W[:, :, :3], text="3 channels of the filter do not divide the input's 4"
)
test_rank = rejects("Conv2D", ONES, X[0], W, text="the input must have 4 axes, got shape (5, 5, 4)")
test_depth = rejects(
    "DepthwiseConv2dNative", ONES, X, W[:, :, :2], text="the filter is for 2 channels, the input has 4"
)
test_strides = rejects(
    "Conv2D",
    {**ONES, "strides": [1, 1, 1, 2]},
    X,
    W,
    text="strides of batch and channels must be 1, got [1, 1, 1, 2]",
)
test_stride_count = rejects(
    "Conv2D", {**ONES, "strides": [1, 1]}, X, W, text="strides must be 4 numbers, one an axis"
)
test_zero = rejects("Conv2D", {**ONES, "strides": [1, 0, 1, 1]}, X, W, text="strides must be 1 or more")
test_padding = rejects(
    "Conv2D", {**ONES, "padding": "FULL"}, X, W, text="must be one of SAME, VALID, EXPLICIT, got FULL"
)
test_order = rejects("Conv2D", {**ONES, "data_format": "NCHW_VECT_C"}, X, W, text="must be one of NHWC, NCHW")
test_explicit = rejects(
    "Conv2D",
    {**ONES, "explicit_paddings": [0, 0, 1, 1, 1, 1, 0, 0]},
    X,
    W,
    text="belong to padding EXPLICIT, got SAME",
)
test_explicit_count = rejects(
    "Conv2D",
    {**ONES, "padding": "EXPLICIT", "explicit_paddings": [1, 1]},
    X,
    W,
    text="explicit_paddings must be 8 numbers, two an axis, got [1, 1]",
)
test_unknown = rejects("Conv2D", {**ONES, "fused_ops": ["Relu"]}, X, W, text="attr has no field 'fused_ops'")
test_missing = rejects("Conv2D", {"strides": [1, 1, 1, 1]}, X, W, text="parameter 'padding' is missing")
