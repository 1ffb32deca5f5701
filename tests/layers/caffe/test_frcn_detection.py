"""FrcnDetection."""

from functools import partial

import numpy as np

from tests.layers.harness import case, rejects

boxes = partial(case, "FrcnDetection", engines=())  # the layer runs in Python
FIELDS = {"nms_threshold": 0.4, "obj_threshold": 0.25, "keep_topk": 3, "class_num": 3}
REGIONS = np.array([[0, 0, 0, 9, 9], [0, 3, 0, 12, 9], [0, 6, 0, 15, 9]], np.float32)[None, None]
NONE = np.zeros((3, 12), np.float32)
SCORES = np.array([[0, 0.5, 0.1], [0, 0.6, 0.1], [0.9, 0.7, 0.3]], np.float32)

test_box_dropped_later_has_dropped_one_before = boxes(
    FIELDS,
    inputs=[NONE, SCORES, REGIONS],
    outputs=[[[[[6, 0, 16, 10, 1, 0.7], [6, 0, 16, 10, 2, 0.3], [0] * 6]]]],
)
MOVED = np.array([0] * 4 + [0.1, 0, np.log(2), 0] + [0] * 4 + [0] * 24, np.float32).reshape(3, 12)
test_offsets = boxes(
    {**FIELDS, "nms_threshold": 1},
    inputs=[MOVED, SCORES, REGIONS],
    outputs=[[[[[-4, 0, 16, 10, 1, 0.5], [3, 0, 13, 10, 1, 0.6], [6, 0, 16, 10, 1, 0.7]]]]],
)
test_rejects_batches = rejects(
    "FrcnDetection",
    FIELDS,
    inputs=[NONE, SCORES, REGIONS.reshape(3, 1, 1, 5)],
    text="for a batch is not known",
)
test_rejects_offsets = rejects(
    "FrcnDetection", FIELDS, inputs=[NONE[:2], SCORES, REGIONS], text="3 regions and class_num=3 need 36 offsets"
)
