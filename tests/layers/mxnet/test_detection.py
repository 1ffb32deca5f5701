"""Tests of MXNet's prior boxes, detections and functions of boxes."""

from __future__ import annotations

from .recorded import as_recorded

test_operators_match_the_recorded_results = as_recorded(
    "MultiBoxPrior", "MultiBoxDetection", "box_nms", "box_iou", "box_decode", file="detection"
)
