"""Im2col."""

import numpy as np

from tests.layers.harness import case, ramp

test_windows = case(
    "Im2col",
    {"kernel_size": 2},
    inputs=[ramp(1, 1, 2, 3)],
    outputs=[np.float32([[0, 1], [1, 2], [3, 4], [4, 5]]).reshape(1, 4, 1, 2)],
)
test_pad_and_stride = case(
    "Im2col",
    {"kernel_size": 3, "pad": 1, "stride": 2},
    inputs=[ramp(1, 1, 3)],
    outputs=[[[[0, 1], [0, 2], [1, 0]]]],
)
test_dilation_and_channels = case(
    "Im2col",
    {"kernel_size": 2, "dilation": 2},
    inputs=[ramp(1, 2, 3)],
    outputs=[[[[0], [2], [3], [5]]]],
)
