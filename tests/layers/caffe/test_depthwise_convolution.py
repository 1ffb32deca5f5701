"""DepthwiseConvolution."""

import numpy as np

from tests.layers.harness import case

test_a_kernel_a_channel = case(
    "DepthwiseConvolution",
    {"num_output": 2, "kernel_size": 1, "group": 2},
    inputs=[[[[[1, 2]], [[3, 4]]]]],
    blobs=[np.float32([2, 10]).reshape(2, 1, 1, 1), [0, 100]],
    outputs=[[[[[2, 4]], [[130, 140]]]]],
)
