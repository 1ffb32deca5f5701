"""Shapes as values, and values made of shapes."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_shapes = as_tensorflow("Shape", "Squeeze", "ExpandDims", "Fill", "BroadcastTo", "Range", "LinSpace")
X = np.zeros((2, 3), np.float32)
test_reshape = rejects(
    "Reshape", {}, X, np.int32([4, 2]), text="6 values of (2, 3) do not fit shape [4, 2], which has 8"
)
test_rest = rejects("Reshape", {}, X, np.int32([4, -1]), text="6 values of (2, 3) do not divide into [4, -1]")
test_rests = rejects("Reshape", {}, X, np.int32([-1, -1]), text="sizes of which one may be -1, got [-1, -1]")
test_squeeze = rejects("Squeeze", {"squeeze_dims": [0]}, X, text="axis 0 of (2, 3) has size 2, 1 is needed")
test_expand = rejects("ExpandDims", {}, X, np.int32(4), text="dim must lie in -3..2 for 3 axes, got 4")
test_range = rejects("Range", {}, *map(np.int32, (0, 5, 0)), text="delta must not be 0")
test_endless = rejects("Range", {}, *map(np.int32, (0, 2**31 - 1, 1)), text="would be 2147483647 values")
test_space = rejects("LinSpace", {}, np.float32(0), np.float32(1), np.int32(0), text="num must lie in 1..")
test_fill = rejects("Fill", {}, np.int32([-1]), np.float32(1), text="dims must be sizes, got [-1]")
test_order = rejects("InvertPermutation", {}, np.int32([0, 2]), text="x must be a permutation, got [0, 2]")
