"""Values arranged anew."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_arranging = as_tensorflow(
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
test_concat = rejects("ConcatV2", {}, X, X, np.int32(2), text="axis must lie in -2..1 for 2 axes, got 2")
test_alone = rejects("ConcatV2", {}, X, text="needs 1 array or more and an axis, got 1 inputs")
test_unpack = rejects("Unpack", {"num": 4, "axis": 1}, X, text="axis 1 of (2, 3) has not num=4 parts", tops=4)
test_split = rejects(
    "Split", {"num_split": 2}, np.int32(1), X, text="num_split=2 does not divide the 3 cells", tops=2
)
test_splits = rejects(
    "SplitV",
    {"num_split": 2},
    *(X, np.int32([1, 1]), np.int32(1)),
    text="size_splits [1, 1] do not add up to the 3 cells of axis 1",
    tops=2,
)
test_perm = rejects("Transpose", {}, X, np.int32([0, 0]), text="perm names an axis twice: [0, 0]")
test_tile = rejects("Tile", {}, X, np.int32([2]), text="multiples must be 2 numbers, one an axis, got [2]")
test_pad = rejects(
    "Pad", {}, X, np.int32([[1, 1]]), text="paddings must be 2 pairs of 0 or more, got shape (1, 2)"
)
test_mirror = rejects(
    "MirrorPad",
    {"mode": "REFLECT"},
    X,
    np.int32([[0, 2], [0, 0]]),
    text="paddings (0, 2) of axis 0 are more than its 1 cells to mirror",
)
test_mode = rejects(
    "MirrorPad", {"mode": "EDGE"}, X, np.int32([[0, 0]] * 2), text="mode must be REFLECT or SYMMETRIC"
)
