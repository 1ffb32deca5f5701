"""Tests of pooling."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_pool_matches_tensorflow = as_tensorflow("MaxPool", "AvgPool", "MaxPool3D", "AvgPool3D", "MaxPoolWithArgmax")
X = np.zeros((1, 5, 5, 4), np.float32)
ATTR = {"ksize": [1, 2, 2, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
test_rejects_window_over_channels = rejects(
    "MaxPool", {**ATTR, "ksize": [1, 1, 1, 2]}, X, text="ksize of batch and channels must be 1, got [1, 1, 1, 2]"
)
test_rejects_other_rank = rejects("AvgPool", ATTR, X[0], text="the input must have 4 axes, got shape (5, 5, 4)")
test_argmax_rejects_channels_first = rejects(
    "MaxPoolWithArgmax", {**ATTR, "data_format": "NCHW"}, X, text="data_format must be NHWC", tops=2
)
