"""Tests of the operations that rearrange elements."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_arranging_matches_tensorflow = as_tensorflow(
    *[
        "Concat",
        "ConcatV2",
        "Pack",
        "Unpack",
        "Split",
        "SplitV",
        "Transpose",
        "Tile",
        "ReverseV2",
        "Pad",
        "PadV2",
        "MirrorPad",
        "functions",
    ]
)
X = np.zeros((2, 3), np.float32)
test_concat_rejects_axis_out_of_range = rejects(
    "ConcatV2", {}, X, X, np.int32(2), text="axis must lie in -2..1 for 2 axes, got 2"
)
test_concat_rejects_single_input = rejects(
    "ConcatV2", {}, X, text="needs 1 array or more and an axis, got 1 input"
)
test_unpack_rejects_other_num = rejects(
    "Unpack", {"num": 4, "axis": 1}, X, text="num=4 is not the size of axis 1 of shape (2, 3)", tops=4
)
test_split_rejects_indivisible_axis = rejects(
    "Split", {"num_split": 2}, np.int32(1), X, text="num_split=2 does not divide axis 1 of size 3", tops=2
)
test_splitv_rejects_sizes_of_other_sum = rejects(
    "SplitV",
    {"num_split": 2},
    *(X, np.int32([1, 1]), np.int32(1)),
    text="size_splits [1, 1] must add up to 3, the size of the axis",
    tops=2,
)
test_transpose_rejects_repeated_axis = rejects(
    "Transpose", {}, X, np.int32([0, 0]), text="perm names an axis twice: [0, 0]"
)
test_tile_rejects_too_few_multiples = rejects(
    "Tile", {}, X, np.int32([2]), text="multiples must be 2 numbers, one per axis, got [2]"
)
test_pad_rejects_too_few_paddings = rejects(
    "Pad", {}, X, np.int32([[1, 1]]), text="paddings must be 2 pairs of 0 or more, got shape (1, 2)"
)
test_mirror_pad_rejects_too_many_elements = rejects(
    "MirrorPad",
    {"mode": "REFLECT"},
    X,
    np.int32([[0, 2], [0, 0]]),
    text="paddings (0, 2) of axis 0 exceed the 1 elements that can be mirrored",
)
test_mirror_pad_rejects_unknown_mode = rejects(
    "MirrorPad", {"mode": "EDGE"}, X, np.int32([[0, 0]] * 2), text="mode must be REFLECT or SYMMETRIC"
)
