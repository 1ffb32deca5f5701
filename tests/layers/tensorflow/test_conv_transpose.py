"""Transposed convolutions."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_conv_transpose = as_tensorflow("Conv2DBackpropInput", "Conv3DBackpropInputV2")
Y, W = np.zeros((1, 5, 5, 4), np.float32), np.zeros((3, 3, 2, 4), np.float32)
ATTR = {"strides": [1, 2, 2, 1], "padding": "SAME"}
test_size = rejects(
    "Conv2DBackpropInput",
    ATTR,
    np.int32([1, 12, 10, 2]),
    W,
    Y,
    text="a map of 12 cells does not convolve to 5 (kernel 3, stride 2, padding SAME)",
)
test_channels = rejects(
    "Conv2DBackpropInput",
    ATTR,
    np.int32([1, 10, 10, 3]),
    W,
    Y,
    text="input_sizes names 3 channels, the filter has 2",
)
test_filter = rejects(
    "Conv2DBackpropInput",
    ATTR,
    np.int32([1, 10, 10, 2]),
    W[..., :3],
    Y,
    text="the filter is for 3 channels, the input has 4",
)
test_count = rejects(
    "Conv2DBackpropInput", ATTR, np.int32([1, 10, 10]), W, Y, text="input_sizes must be 4 numbers, one an axis"
)
