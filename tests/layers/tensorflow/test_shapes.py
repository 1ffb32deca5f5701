"""Tests of the operations on shapes."""

import numpy as np

from tests.layers.harness import case, ramp
from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_shapes_match_tensorflow = as_tensorflow(
    "Shape", "Squeeze", "ExpandDims", "Fill", "BroadcastTo", "Range", "LinSpace"
)
X = np.zeros((2, 3), np.float32)
test_reshape_rejects_other_size = rejects(
    "Reshape", {}, X, np.int32([4, 2]), text="shape [4, 2] does not fit an array of shape (2, 3)"
)
test_reshape_rejects_indivisible_size = rejects(
    "Reshape", {}, X, np.int32([4, -1]), text="shape [4, -1] does not fit an array of shape (2, 3)"
)
test_reshape_rejects_two_unknown_sizes = rejects(
    "Reshape", {}, X, np.int32([-1, -1]), text="sizes of which one may be -1, got [-1, -1]"
)
test_squeeze_rejects_larger_axis = rejects(
    "Squeeze", {"squeeze_dims": [0]}, X, text="axis 0 of shape (2, 3) must have size 1, got 2"
)
test_expand_dims_rejects_axis_out_of_range = rejects(
    "ExpandDims", {}, X, np.int32(4), text="dim must lie in -3..2 for 3 axes, got 4"
)
test_range_rejects_delta_zero = rejects("Range", {}, *map(np.int32, (0, 5, 0)), text="delta must not be 0")
test_range_rejects_too_many_values = rejects(
    "Range", {}, *map(np.int32, (0, 2**31 - 1, 1)), text="gives 2147483647 values"
)
test_lin_space_rejects_num_zero = rejects(
    "LinSpace", {}, np.float32(0), np.float32(1), np.int32(0), text="num must lie in 1.."
)
test_fill_rejects_negative_size = rejects(
    "Fill", {}, np.int32([-1]), np.float32(1), text="dims must be sizes of 0 or more, got [-1]"
)
test_invert_permutation_rejects_gap = rejects(
    "InvertPermutation", {}, np.int32([0, 2]), text="x must be a permutation, got [0, 2]"
)
test_size = case("Size", {"out_type": "int32"}, inputs=[X], outputs=[np.array(6, np.int32)], format="tensorflow")
test_rank = case("Rank", inputs=[X], outputs=[np.array(2, np.int32)], format="tensorflow")
test_shapes_of_several_inputs = case(
    "ShapeN",
    {"N": 2, "out_type": "int32"},
    inputs=[X, X[0]],
    outputs=[np.array([2, 3], np.int32), np.array([3], np.int32)],
    format="tensorflow",
)
test_flatten = case("Flatten", inputs=[ramp(2, 3, 4)], outputs=[ramp(2, 12)], format="tensorflow")
test_broadcast_args = case(
    "BroadcastArgs",
    inputs=[np.int32([2, 1, 4]), np.int32([3, 1])],
    outputs=[np.int32([2, 3, 4])],
    format="tensorflow",
    engines=(),
)
test_invert_permutation = case(
    "InvertPermutation",
    inputs=[np.int32([2, 0, 1])],
    outputs=[np.int32([1, 2, 0])],
    format="tensorflow",
    engines=(),
)
