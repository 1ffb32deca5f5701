"""Tests of non-maximum suppression."""

import numpy as np

from tests.layers.harness import case
from tests.layers.tensorflow.recorded import as_tensorflow, rejects

test_nms_matches_tensorflow = as_tensorflow(
    "NonMaxSuppression", "NonMaxSuppressionV2", "NonMaxSuppressionV3", "NonMaxSuppressionV4", "NonMaxSuppressionV5"
)
BOXES, SCORES, ONE = np.zeros((3, 4), np.float32), np.zeros(3, np.float32), np.float32(1)
test_rejects_too_few_scores = rejects(
    "NonMaxSuppressionV3",
    {},
    *(BOXES, SCORES[:2], np.int32(2), ONE, ONE),
    text="expected boxes (N, 4) and scores (N,), got (3, 4) and (2,)",
)
test_rejects_soft_nms = rejects(
    "NonMaxSuppressionV5",
    {},
    *(BOXES, SCORES, np.int32(2), ONE, ONE, ONE),
    text="soft_nms_sigma must be 0: soft NMS is not supported",
    tops=3,
)
test_no_box_is_kept_where_at_most_0_may_be = case(
    "NonMaxSuppressionV4",
    inputs=[[[0, 0, 1, 1]], [1], np.array(0, np.int32), 0.5, 0.0],
    outputs=[np.zeros(0, np.int32), np.array(0, np.int32)],
    format="tensorflow",
    engines=(),
)
