"""Scale."""

import numpy as np

from tests.layers.harness import case, ramp, rejects

X = ramp(2, 3, 2)
S = np.float32([10, 20, 30])

test_weight = case("Scale", inputs=[X], blobs=[S], outputs=[X * S[:, None]])
test_weight_and_bias = case(
    "Scale", {"bias_term": True}, inputs=[X], blobs=[S, S + 1], outputs=[X * S[:, None] + S[:, None] + 1]
)
test_second_input = case("Scale", {"axis": 0}, inputs=[X, [1, 2]], outputs=[X * np.float32([[[1]], [[2]]])])
test_second_input_and_bias = case(
    "Scale", {"bias_term": True}, inputs=[X, S], blobs=[S], outputs=[X * S[:, None] + S[:, None]]
)
test_squeeze_and_excite = case(
    "Scale",
    {"axis": 0},
    inputs=[X, [[1, 2, 3], [4, 5, 6]]],
    outputs=[X * np.float32([[[1], [2], [3]], [[4], [5], [6]]])],
)
test_two_axes = case("Scale", {"num_axes": 2}, inputs=[X], blobs=[X[0]], outputs=[X * X[0]])
test_scalar = case("Scale", {"num_axes": 0}, inputs=[X], blobs=[np.float32(2)], outputs=[X * 2])
test_default = case("Scale", {"bias_term": True}, inputs=[X], outputs=[X])
test_fillers = case(
    "Scale",
    {"filler": {"value": 2.0}, "bias_term": True, "bias_filler": {"value": 1.0}},
    inputs=[X],
    outputs=[X * 2 + 1],
)
test_rejects_scale_that_does_not_fit_axis = rejects(
    "Scale",
    inputs=[X, ramp(2)],
    text="a scale of shape (2,) does not fit the input (2, 3, 2) from axis 1 on, which needs (3,)",
)
test_rejects_num_axes_below_minus_1 = rejects(
    "Scale", {"num_axes": -2}, inputs=[X], text="num_axes must be -1 or more, got -2"
)
test_bias_missing = rejects("Scale", {"bias_term": True}, inputs=[X], blobs=[S], text="blob 1 (bias) is missing")
