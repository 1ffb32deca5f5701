"""Yolov3DetectionOutput: MobileNet-YOLO's decoder of YOLOv3's maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.caffe.boxes import F, greedy
from tests.layers.harness import case, noise, rejects

P: dict[str, Any] = {
    "num_classes": 3,
    "num_box": 2,
    "biases": [10, 14, 23, 27, 37, 58, 81, 82],
    "mask": [2, 3, 0, 1],
    "anchors_scale": [32, 16],
    "mask_group_num": 2,
    "confidence_threshold": 0.2,
    "nms_threshold": 0.45,
}
ONE = {**P, "mask": [3, 1], "mask_group_num": 1}


def reference(maps: list[Array], p: dict[str, Any]) -> Array:
    """Compute yolov3_detection_output_layer.cpp one box and class at a time."""
    per, anchors = 5 + p["num_classes"], np.array(p["biases"], F).reshape(-1, 2)
    rows = []
    for t, x in enumerate(maps):
        size = np.array([x.shape[3], x.shape[2]], F)
        for j, i, b in np.ndindex(x.shape[2], x.shape[3], p["num_box"]):
            v = x[0, b * per : (b + 1) * per, j, i]
            chance = F(1) / (F(1) + np.exp(-v))
            centre = (np.array([i, j], F) + chance[:2]) / size
            half = (
                np.exp(v[2:4])
                * anchors[p["mask"][t * p["num_box"] + b]]
                / (size * F(p["anchors_scale"][t]))
                / F(2)
            )
            for c in range(p["num_classes"]):
                if chance[5 + c] * chance[4] > F(p["confidence_threshold"]):
                    rows.append([0, c + 1, chance[5 + c] * chance[4], *(centre - half), *(centre + half)])
    order = sorted(range(len(rows)), key=lambda k: -rows[k][2])
    boxes = [np.array(row[3:], F) for row in rows]
    kept = greedy(boxes, order, lambda overlap: overlap >= F(p["nms_threshold"]))
    return np.array([rows[k] for k in kept] or [[0] + [-1] * 6], F)[None, None]


def agrees(p: dict[str, Any], *maps: Array) -> Any:
    return case("Yolov3DetectionOutput", p, inputs=list(maps), outputs=[reference(list(maps), p)])


test_two_maps = agrees(P, noise(1, 16, 3, 3), noise(1, 16, 6, 6, seed=1))
test_height_is_not_width = agrees(P, noise(1, 16, 3, 5), noise(1, 16, 6, 10, seed=1))
test_one_map = agrees(ONE, noise(1, 16, 4, 4))
test_one_class = agrees({**ONE, "num_classes": 1}, noise(1, 12, 4, 4))
test_nothing_found = agrees({**ONE, "confidence_threshold": 1.0}, noise(1, 16, 4, 4))
test_everything_counts = agrees({**ONE, "confidence_threshold": 0.0}, noise(1, 16, 4, 4))
test_more_scales_than_maps = agrees({**ONE, "anchors_scale": [32, 16, 8]}, noise(1, 16, 4, 4))


def rejected(params: dict[str, Any], text: str, *maps: Array) -> Any:
    return rejects(
        "Yolov3DetectionOutput", {**ONE, **params}, inputs=list(maps) or [noise(1, 16, 4, 4)], text=text
    )


test_num_classes_is_needed = rejects(
    "Yolov3DetectionOutput",
    {"mask_group_num": 1},
    inputs=[noise(1, 16, 2, 2)],
    text="parameter 'num_classes' is missing",
)
test_rejects_mask_group_num_of_0 = rejected({"mask_group_num": 0}, "mask_group_num must be at least 1, got 0")
test_rejects_mask_values_for_other_number_of_boxes = rejected(
    {"mask": [0, 1, 2]}, "mask_group_num=1 groups of num_box=2 need 2 mask values, got 3"
)
test_rejects_mask_beyond_biases = rejected({"mask": [0, 4]}, "mask 4 needs 10 biases, got 8")
test_rejects_missing_anchors_scale = rejected(
    {"anchors_scale": []}, "mask_group_num=1 needs as many anchors_scale, got 0"
)
test_rejects_more_maps_than_groups = rejected(
    {}, "mask_group_num=1 needs as many inputs, got 2", *[noise(1, 16, 4, 4)] * 2
)
test_rejects_batch_of_three_images = rejected({}, "takes one image, got a batch of 3", noise(3, 16, 4, 4))
test_rejects_too_many_channels_for_boxes = rejected(
    {}, "2 boxes of 5 + num_classes=3 values need 16 channels, got 24", noise(1, 24, 4, 4)
)
test_rejects_nms_threshold_of_1 = rejected({"nms_threshold": 1.0}, "nms_threshold must lie between 0 and 1, got 1")
test_rejects_gaussian_box = rejected(
    {"gaussian_box": 1}, "yolov3_detection_output_param has no field 'gaussian_box'"
)
