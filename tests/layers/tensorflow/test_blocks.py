"""Tests of the operations that move blocks of pixels."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_blocks_match_tensorflow = as_tensorflow(
    *[
        "SpaceToDepth",
        "DepthToSpace",
        "SpaceToBatchND",
        "BatchToSpaceND",
        "SpaceToBatch",
        "BatchToSpace",
        "ExtractImagePatches",
    ]
)
X = np.zeros((2, 5, 4, 4), np.float32)
test_space_to_depth_rejects_indivisible_size = rejects("SpaceToDepth", {"block_size": 2}, X, text="5")
test_space_to_batch_rejects_indivisible_size = rejects(
    "SpaceToBatchND",
    {},
    *(X, np.int32([2, 2]), np.int32([[0, 0], [0, 0]])),
    text="block_shape 2 does not divide axis 1 of size 5 after padding",
)
test_batch_to_space_rejects_indivisible_batch = rejects(
    "BatchToSpaceND",
    {},
    *(X, np.int32([3]), np.int32([[0, 0]])),
    text="a block of 3 pixels does not divide the batch size 2",
)
test_batch_to_space_rejects_crops_beyond_axis = rejects(
    "BatchToSpaceND",
    {},
    *(X, np.int32([2]), np.int32([[9, 2]])),
    text="crops 9 + 2 exceed the size 10 of axis 1",
)
