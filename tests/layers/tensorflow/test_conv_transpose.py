"""Tests of the transposed convolutions."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_conv_transpose_matches_tensorflow = as_tensorflow("Conv2DBackpropInput", "Conv3DBackpropInputV2")
Y, W = np.zeros((1, 5, 5, 4), np.float32), np.zeros((3, 3, 2, 4), np.float32)
ATTR = {"strides": [1, 2, 2, 1], "padding": "SAME"}
test_rejects_impossible_output_size = rejects(
    "Conv2DBackpropInput",
    ATTR,
    np.int32([1, 12, 10, 2]),
    W,
    Y,
    text="input size 12 does not convolve to 5 (extent 3, stride 2, padding SAME)",
)
test_rejects_output_of_other_channels = rejects(
    "Conv2DBackpropInput",
    ATTR,
    np.int32([1, 10, 10, 3]),
    W,
    Y,
    text="input_sizes states 3 channels, but the filter has 2",
)
test_rejects_filter_of_other_channels = rejects(
    "Conv2DBackpropInput",
    ATTR,
    np.int32([1, 10, 10, 2]),
    W[..., :3],
    Y,
    text="the filter is for 3 channels, the input has 4",
)
test_rejects_too_few_input_sizes = rejects(
    "Conv2DBackpropInput", ATTR, np.int32([1, 10, 10]), W, Y, text="input_sizes must be 4 numbers, one per axis"
)
