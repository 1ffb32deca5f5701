"""YoloDetectionOutput: MobileNet-YOLO's decoder of YOLOv2's maps."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.caffe.boxes import F, greedy
from tests.layers.harness import case, noise, rejects

P: dict[str, Any] = {
    "num_classes": 3,
    "num_box": 2,
    "biases": [0.7, 0.9, 2.5, 2.0],
    "confidence_threshold": 0.3,
    "nms_threshold": 0.4,
}


def reference(maps: list[Array], p: dict[str, Any]) -> Array:
    """Compute yolo_detection_output_layer.cpp one box at a time."""
    per, anchors = 5 + p["num_classes"], np.array(p["biases"], F).reshape(-1, 2)
    rows = []
    for x in maps:
        side = x.shape[3]
        for j, i, b in np.ndindex(side, side, p["num_box"]):
            v = x[0, b * per : (b + 1) * per, j, i]
            e = np.exp(v[5:] - v[5:].max())
            chance = e / e.sum()
            score = chance.max() / (F(1) + np.exp(-v[4]))
            if score >= F(p["confidence_threshold"]):
                centre = (np.array([i, j], F) + F(1) / (F(1) + np.exp(-v[:2]))) / F(side)
                half = np.exp(v[2:4]) * anchors[b] / F(side) / F(2)
                rows.append([0, chance.argmax() + 1, score, *(centre - half), *(centre + half)])
    order = sorted(range(len(rows)), key=lambda k: -rows[k][2])
    boxes = [np.array(row[3:], F) for row in rows]
    kept = greedy(boxes, order, lambda overlap: overlap >= F(p["nms_threshold"]))
    return np.array([rows[k] for k in kept] or [[0] + [-1] * 6], F)[None, None]


def agrees(p: dict[str, Any], *maps: Array) -> Any:
    return case("YoloDetectionOutput", p, inputs=list(maps), outputs=[reference(list(maps), p)])


test_one_map = agrees(P, noise(1, 16, 5, 5))
test_two_maps = agrees(P, noise(1, 16, 3, 3, seed=1), noise(1, 16, 6, 6, seed=2))
test_one_cell = agrees({**P, "confidence_threshold": 0.0}, noise(1, 16, 1, 1))
test_nothing_found = agrees({**P, "confidence_threshold": 1.0}, noise(1, 16, 4, 4))
test_side_is_not_used = agrees({**P, "side": 13}, noise(1, 16, 4, 4))
test_further_biases_are_not_used = agrees(
    {**P, "biases": [0.7, 0.9, 2.5, 2.0, 9, 9]} | {"num_box": 2}, noise(1, 16, 3, 3)
)


def rejected(params: dict[str, Any], text: str, *maps: Array) -> Any:
    return rejects("YoloDetectionOutput", {**P, **params}, inputs=list(maps) or [noise(1, 16, 4, 4)], text=text)


test_num_classes_is_needed = rejects(
    "YoloDetectionOutput",
    {"biases": [1, 1] * 5},
    inputs=[noise(1, 125, 2, 2)],
    text="parameter 'num_classes' is missing",
)
test_rejects_num_classes_of_0 = rejected({"num_classes": 0}, "num_classes must be at least 1, got 0")
test_rejects_num_box_of_0 = rejected({"num_box": 0}, "num_box must be at least 1, got 0")
test_rejects_5_coords = rejected({"coords": 5}, "coords must be 4, got 5")
test_rejects_nms_threshold_of_0 = rejected({"nms_threshold": 0.0}, "nms_threshold must lie between 0 and 1, got 0")
test_rejects_nms_threshold_of_1 = rejected({"nms_threshold": 1.0}, "nms_threshold must lie between 0 and 1, got 1")
test_rejects_odd_number_of_biases = rejected(
    {"biases": [1, 2, 3]}, "biases must be pairs of width and height, got 3 values"
)
test_rejects_fewer_biases_than_boxes = rejected({"biases": [1, 2]}, "num_box=2 needs 4 biases, got 2")
test_rejects_batch_of_two_images = rejected({}, "takes one image, got a batch of 2", noise(2, 16, 4, 4))
test_rejects_channels_that_do_not_fit_boxes = rejected(
    {}, "2 boxes of 5 + num_classes=3 values need 16 channels, got 17", noise(1, 17, 4, 4)
)
test_rejects_input_without_batch = rejected({}, "needs an input (1, C, H, W), got shape (16, 4)", noise(16, 4))
test_rejects_map_that_is_not_square = rejected({}, "needs square maps, got 4 x 5", noise(1, 16, 4, 5))
test_rejects_third_map = rejected({}, "takes one or two maps, got 3", *[noise(1, 16, 4, 4)] * 3)
