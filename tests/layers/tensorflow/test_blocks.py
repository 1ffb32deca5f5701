"""Blocks of pixels as channels or as batches."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_blocks = as_tensorflow(
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
test_divides = rejects("SpaceToDepth", {"block_size": 2}, X, text="5")
test_batch = rejects(
    "SpaceToBatchND",
    {},
    *(X, np.int32([2, 2]), np.int32([[0, 0], [0, 0]])),
    text="block_shape 2 does not divide the 5 padded cells of axis 1",
)
test_back = rejects(
    "BatchToSpaceND",
    {},
    *(X, np.int32([3]), np.int32([[0, 0]])),
    text="a block of 3 cells does not divide a batch of 2",
)
