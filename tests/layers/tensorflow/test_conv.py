"""Tests of the convolutions."""

import numpy as np

from tests.layers.harness import refuses
from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_conv_matches_tensorflow = as_tensorflow("Conv2D", "Conv3D", "DepthwiseConv2dNative")
X, W = np.zeros((1, 5, 5, 4), np.float32), np.zeros((3, 3, 4, 2), np.float32)
ONES = {"strides": [1, 1, 1, 1], "padding": "SAME"}
test_rejects_indivisible_channels = rejects(
    "Conv2D",
    ONES,
    X,
    W[:, :, :3],
    text="the filter has 3 channels, which does not divide the input's 4",
)
test_rejects_input_of_other_rank = rejects(
    "Conv2D", ONES, X[0], W, text="the input must have 4 axes, got shape (5, 5, 4)"
)
test_depthwise_rejects_other_channels = rejects(
    "DepthwiseConv2dNative", ONES, X, W[:, :, :2], text="the filter is for 2 channels, the input has 4"
)
test_refusals = refuses(
    "Conv2D",
    {
        "strides_of_channels": (
            {"strides": [1, 1, 1, 2]},
            "strides of batch and channels must be 1, got [1, 1, 1, 2]",
        ),
        "too_few_strides": ({"strides": [1, 1]}, "strides must be 4 numbers, one per axis"),
        "stride_zero": ({"strides": [1, 0, 1, 1]}, "strides must be 1 or more"),
        "unknown_padding": ({"padding": "FULL"}, "must be one of SAME, VALID, EXPLICIT, got FULL"),
        "unknown_data_format": ({"data_format": "NCHW_VECT_C"}, "must be one of NHWC, NCHW"),
        "explicit_paddings_with_same": (
            {"explicit_paddings": [0, 0, 1, 1, 1, 1, 0, 0]},
            "explicit_paddings need padding EXPLICIT, got SAME",
        ),
        "too_few_explicit_paddings": (
            {"padding": "EXPLICIT", "explicit_paddings": [1, 1]},
            "explicit_paddings must be 8 numbers, two per axis, got [1, 1]",
        ),
        "unknown_attribute": ({"fused_ops": ["Relu"]}, "attr has no field 'fused_ops'"),
    },
    params=ONES,
    inputs=[X, W],
    format="tensorflow",
)
test_rejects_missing_attribute = rejects(
    "Conv2D", {"strides": [1, 1, 1, 1]}, X, W, text="parameter 'padding' is missing"
)
