"""Tests of the normalizations over neighbours."""

import numpy as np

from tests.layers.harness import case
from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_lrn_matches_tensorflow = as_tensorflow("LRN")
test_lrn_rejects_other_rank = rejects(
    "LRN", {}, np.zeros((2, 3)), text="the input must have 4 axes, got shape (2, 3)"
)
test_lrn_rejects_negative_radius = rejects(
    "LRN", {"depth_radius": -1}, np.zeros((1, 2, 2, 3)), text="depth_radius must be 0 or more"
)
test_l2_normalize_rejects_axis_out_of_range = rejects(
    "L2Normalize", {}, np.zeros((1, 2)), np.int32([3]), text="axes must lie in -2..1 for 2 axes, got 3"
)
test_l2_normalize = case(
    "L2Normalize",
    inputs=[[[3, 4], [0, 0]], np.int32([-1])],
    outputs=[[[0.6, 0.8], [0, 0]]],
    format="tensorflow",
    engines=(),
)
