"""Tests of MXNet's prior boxes, detections and functions of boxes."""

from __future__ import annotations

import numpy as np

from tests.layers.harness import noise, refuses, rejects

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "_contrib_MultiBoxPrior",
    "_contrib_MultiBoxDetection",
    "_contrib_box_nms",
    "_contrib_box_iou",
    "_contrib_box_decode",
    file="detection",
)
test_priors_refuse = refuses(
    "_contrib_MultiBoxPrior",
    {
        "no size": ({"sizes": []}, "needs sizes and positive ratios, at least one of each"),
        "ratio": ({"ratios": [1, 0]}, "needs sizes and positive ratios"),
        "one step": ({"steps": [0.5]}, "steps and offsets must be two numbers each"),
        "dtype": ({}, "only float32 is supported, got float16", {"inputs": [np.zeros((1, 3, 4, 4), np.float16)]}),
        "mixed steps": ({"steps": [0.5, -1]}, "must both be positive, or both negative, got (0.5, -1.0)"),
        "rank": ({}, "input 0 must be of shape (N, C, H, W), got (1, 3, 4)", {"inputs": [noise(1, 3, 4)]}),
    },
    inputs=[noise(1, 3, 4, 4)],
    format="mxnet",
)
_DETECTION = [noise(1, 3, 5), noise(1, 20), noise(1, 5, 4)]
test_detections_refuse = refuses(
    "_contrib_MultiBoxDetection",
    {
        "classes": ({}, "needs a class besides the background", {"inputs": [noise(1, 1, 5), *_DETECTION[1:]]}),
        "variances": ({"variances": [0.1]}, "variances must be 4 numbers, got 1"),
        "locations": ({}, "loc_pred must be of shape (1, 20), got (1, 16)",
            {"inputs": [_DETECTION[0], noise(1, 16), _DETECTION[2]]}),
        "anchors": ({}, "the anchors must be of shape (1, 5, 4), got (1, 6, 4)",
            {"inputs": [*_DETECTION[:2], noise(1, 6, 4)]}),
        "rank": ({}, "cls_prob must be of shape (N, C, P)", {"inputs": [noise(3, 5), *_DETECTION[1:]]}),
    },
    inputs=_DETECTION,
    format="mxnet",
)  # fmt: skip
test_box_nms_refuses = refuses(
    "_contrib_box_nms",
    {
        "score in the box": ({"score_index": 3}, "must be different columns of the 6"),
        "beyond": ({"coord_start": 3}, "must be different columns of the 6"),
        "class is score": ({"id_index": 1}, "must be different columns of the 6"),
        "threshold": ({"overlap_thresh": -0.1}, "iou_threshold must be between 0 and 1, got -0.1"),
        "classes of many": ({"id_index": 0}, "lets 5000 boxes into the NMS within classes, at most 4096 are",
            {"inputs": [noise(1, 5000, 6)]}),
        "rank": ({}, "takes rows of boxes (..., P, W), got shape (6,)", {"inputs": [noise(6)]}),
    },
    inputs=[noise(2, 5, 6)],
    format="mxnet",
)  # fmt: skip
test_box_iou_refuses = rejects(
    "_contrib_box_iou",
    {},
    inputs=[noise(3, 4), noise(3, 5)],
    format="mxnet",
    text="takes boxes (..., 4), got shape",
)
test_box_decode_refuses = rejects(
    "_contrib_box_decode", {}, inputs=[noise(2, 3, 4), noise(2, 3, 4)], format="mxnet",
    text="the anchors must be of shape (1, 3, 4), got (2, 3, 4)",
)  # fmt: skip
test_targets_of_training_are_refused = rejects(
    "_contrib_MultiBoxTarget", {}, inputs=[noise(1, 5, 4), noise(1, 2, 5), noise(1, 3, 5)], format="mxnet", tops=3,
    text="the targets of training are not supported; export the symbol for deployment",
)  # fmt: skip
