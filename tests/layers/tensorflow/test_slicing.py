"""Parts cut out of arrays."""

import numpy as np

from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_slicing = as_tensorflow(
    *["Slice", "StridedSlice", "Gather", "GatherV2", "GatherNd", "OneHot", "TopKV2", "ReverseSequence"]
)
test_where = as_tensorflow("Where", engines=["numpy"])
X = np.zeros((2, 3), np.float32)
test_box = rejects(
    "Slice",
    {},
    X,
    np.int32([0, 1]),
    np.int32([2, 3]),
    text="begin 1 and size 3 do not lie in the 3 cells of axis 1",
)
test_entries = rejects(
    "StridedSlice", {}, X, *[np.int32([1, 1, 1])] * 3, text="3 entries for the 2 axes of (2, 3)"
)
test_shrink = rejects(
    "StridedSlice",
    {"shrink_axis_mask": 1},
    X,
    *[np.int32([5])] * 3,
    text="index 5 is out of the 2 cells of axis 0",
)
test_step = rejects("StridedSlice", {}, X, *[np.int32([0])] * 3, text="strides must not be 0")
test_gather = rejects("GatherV2", {}, X, np.int32([3]), np.int32(1), text="indices must lie in 0..2, got 3 to 3")
test_top = rejects("TopKV2", {}, X, np.int32(4), text="k=4 is more than the 3 values of the last axis", tops=2)
