"""ConvolutionDepthwise."""

import numpy as np

from tests.layers.harness import case, ramp, rejects

test_num_output_has_no_effect = case(
    "ConvolutionDepthwise",
    {"num_output": 99, "kernel_size": 1, "stride": 1},
    inputs=[[[[[1, 2]], [[3, 4]]]]],
    blobs=[np.float32([2, 10]).reshape(2, 1, 1, 1), [0, 100]],
    outputs=[[[[[2, 4]], [[130, 140]]]]],
)
test_stride_by_axis = case(
    "ConvolutionDepthwise",
    {"kernel_size": 1, "stride_h": 1, "stride_w": 2, "bias_term": False},
    inputs=[ramp(1, 1, 2, 3)],
    blobs=[np.float32([[[[1]]]])],
    outputs=[[[[[0, 2], [3, 5]]]]],
)
test_stride_is_required = rejects(
    "ConvolutionDepthwise",
    {"kernel_size": 3},
    inputs=[ramp(1, 2, 5, 5)],
    text="stride is missing, and Caffe's layer has no default for it",
)
test_rejects_input_without_4_axes = rejects(
    "ConvolutionDepthwise",
    {"kernel_size": 1, "stride": 1},
    inputs=[ramp(2, 3)],
    text="needs an input (N, C, H, W)",
)
