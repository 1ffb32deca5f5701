"""Bias."""

import numpy as np

from tests.layers.harness import case, ramp, rejects

X = ramp(2, 3, 2)

test_weight = case("Bias", inputs=[X], blobs=[[10, 20, 30]], outputs=[X + np.float32([[[10], [20], [30]]])])
test_second_input = case(
    "Bias", inputs=[X, [[1, 2], [3, 4], [5, 6]]], outputs=[X + np.float32([[[1, 2], [3, 4], [5, 6]]])]
)
test_negative_axis = case("Bias", {"axis": -1}, inputs=[X, [100, 200]], outputs=[X + np.float32([100, 200])])
test_scalar = case("Bias", inputs=[X, np.float32(7)], outputs=[X + 7])
test_scalar_weight = case("Bias", {"num_axes": 0}, inputs=[X], blobs=[np.float32(7)], outputs=[X + 7])
test_all_axes = case("Bias", {"axis": 0, "num_axes": -1}, inputs=[X], blobs=[X], outputs=[2 * X])
test_filler = case("Bias", {"filler": {"value": 3.0}}, inputs=[X], outputs=[X + 3])
test_default_is_0 = case("Bias", inputs=[X], outputs=[X])
test_rejects_bias_that_does_not_fit_axis = rejects(
    "Bias",
    inputs=[X, ramp(2)],
    text="a bias of shape (2,) does not fit the input (2, 3, 2) from axis 1 on, which needs (3,)",
)
test_rejects_bias_with_more_axes_than_input = rejects(
    "Bias", inputs=[X, ramp(3, 2, 1)], text="which needs at most 2 axes"
)
test_rejects_num_axes_beyond_rank = rejects(
    "Bias", {"num_axes": 3}, inputs=[X], text="axis=1 and num_axes=3 reach past the input's shape (2, 3, 2)"
)
test_rejects_third_input = rejects("Bias", inputs=[X, X, X], text="takes 1 or 2 inputs, got 3")
