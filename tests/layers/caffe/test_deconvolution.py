"""Deconvolution."""

import numpy as np

from tests.layers.harness import case, ramp, rejects

test_spread = case(
    "Deconvolution",
    {"num_output": 1, "kernel_size": 2, "stride": 2, "bias_term": False},
    inputs=[[[[[1, 2]]]]],
    blobs=[np.float32([[[[1, 10], [100, 1000]]]])],
    outputs=[[[[[1, 10, 2, 20], [100, 1000, 200, 2000]]]]],
)
test_overlap_pad_and_bias = case(
    "Deconvolution",
    {"num_output": 1, "kernel_size": 3, "pad": 1},
    inputs=[[[[[1, 2, 3]]]]],
    blobs=[np.ones((1, 1, 3, 3), np.float32), [0.5]],
    outputs=[[[[[3.5, 6.5, 5.5]]]]],
)
test_group = case(
    "Deconvolution",
    {"num_output": 2, "kernel_size": 1, "group": 2, "bias_term": False},
    inputs=[[[[[1]], [[2]]]]],
    blobs=[np.float32([3, 5]).reshape(2, 1, 1, 1)],
    outputs=[[[[[3]], [[10]]]]],
)
test_dilation = case(
    "Deconvolution",
    {"num_output": 1, "kernel_h": 1, "kernel_w": 2, "dilation": [1, 2], "bias_term": False},
    inputs=[[[[[1, 2]]]]],
    blobs=[np.float32([[[[1, 10]]]])],
    outputs=[[[[[1, 2, 10, 20]]]]],
)
test_one_spatial_axis_behind_batches = case(
    "Deconvolution",
    {"num_output": 1, "kernel_size": 2, "stride": 2, "axis": 2, "bias_term": False},
    inputs=[[[[[1, 2]], [[3, 4]]]]],
    blobs=[np.float32([[[1, 10]]])],
    outputs=[[[[[1, 10, 2, 20]], [[3, 30, 4, 40]]]]],
)
test_bilinear_filler = case(
    "Deconvolution",
    {
        "num_output": 1,
        "kernel_size": 4,
        "stride": 2,
        "pad": 1,
        "bias_term": False,
        "weight_filler": {"type": "bilinear"},
    },
    inputs=[[[[[16]]]]],
    outputs=[[[[[9, 9], [9, 9]]]]],
)
test_rejects_pad_that_leaves_no_output = rejects(
    "Deconvolution",
    {"num_output": 1, "kernel_size": 2, "pad": 1},
    inputs=[ramp(1, 1, 1, 1)],
    text="pad 1 leaves nothing of spatial axis 0: stride 1 * (1 - 1) + 2 - 2 * 1",
)
test_group_divides = rejects(
    "Deconvolution",
    {"num_output": 3, "kernel_size": 1, "group": 2},
    inputs=[ramp(1, 2, 1, 1)],
    text="group=2 does not divide num_output=3",
)
test_group_divides_channels = rejects(
    "Deconvolution",
    {"num_output": 2, "kernel_size": 1, "group": 2},
    inputs=[ramp(1, 3, 1, 1)],
    text="group=2 does not divide 3 channels",
)
