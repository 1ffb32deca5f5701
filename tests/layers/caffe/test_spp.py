"""SPP."""

import numpy as np

from tests.layers.harness import case, ramp, rejects

test_one_level_keeps_its_axes = case(
    "SPP", {"pyramid_height": 1}, inputs=[ramp(1, 2, 2, 2)], outputs=[[[[[3]], [[7]]]]]
)
test_two_levels = case("SPP", {"pyramid_height": 2}, inputs=[ramp(1, 1, 4, 4)], outputs=[[[15, 5, 7, 13, 15]]])
test_mean = case(
    "SPP",
    {"pyramid_height": 2, "pool": "AVE"},
    inputs=[ramp(1, 1, 2, 2)],
    outputs=[[[1.5, 0, 1, 2, 3]]],
)
test_sizes_that_do_not_divide = case(
    "SPP", {"pyramid_height": 2}, inputs=[ramp(1, 1, 3, 3)], outputs=[np.float32([[8, 0, 2, 6, 8]])]
)
test_rejects_pyramid_height_of_0 = rejects(
    "SPP", {"pyramid_height": 0}, inputs=[ramp(1, 1, 4, 4)], text="pyramid_height must lie in 1..16, got 0"
)
test_rejects_more_windows_than_cells = rejects(
    "SPP",
    {"pyramid_height": 3},
    inputs=[ramp(1, 1, 1, 1)],
    text="cuts 1 cells into 2 windows of 1, which needs a padding of 1",
)
test_rejects_stochastic_pooling = rejects(
    "SPP", {"pyramid_height": 1, "pool": 2}, inputs=[ramp(1, 1, 4, 4)], text="pool STOCHASTIC selects random cells"
)
test_rejects_input_without_4_axes = rejects(
    "SPP",
    {"pyramid_height": 1},
    inputs=[ramp(4, 4)],
    text="needs an input of 4 axes (N, C, H, W), got shape (4, 4)",
)
