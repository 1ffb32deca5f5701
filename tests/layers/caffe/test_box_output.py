"""BoxOutput: MS-CNN's regions of interest."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.caffe.boxes import F
from tests.layers.harness import case, noise, rejects

P: dict[str, Any] = {
    "field_h": [40, 60], "field_w": [40, 80], "downsample_rate": [8, 16], "iou_thr": 0.65, "fg_thr": -0.5,
    "min_size": 12,
}  # fmt: skip


def overlap(a: list[Any], b: list[Any]) -> Any:
    """Compute BoxIOU of math_functions.cpp for [image, x, y, width, height, score]."""
    if a[3] <= 0 or a[4] <= 0 or b[3] <= 0 or b[4] <= 0:
        return F(0)
    x, y = max(a[1], b[1]), max(a[2], b[2])
    right, low = min(a[1] + a[3], b[1] + b[3]), min(a[2] + a[4], b[2] + b[4])
    common = F(0) if x >= right or y >= low else (right - x) * (low - y)
    return common / (a[3] * a[4] + b[3] * b[4] - common)


def reference(maps: list[Array], p: dict[str, Any], mean: Any = None, std: Any = None) -> list[Array]:
    """Compute box_output_layer.cpp one cell at a time."""
    found = []
    for n in range(maps[0].shape[0]):
        boxes = []
        for j, x in enumerate(maps):
            for h, w in np.ndindex(*x.shape[2:]):
                cell = x[n, :, h, w]
                score = cell[1:-4].max() - cell[0]
                if score < F(p["fg_thr"]):
                    continue
                move = cell[-4:] if mean is None else cell[-4:] * F(std) + F(mean)
                boxes.append(box(n, move, score, h, w, x.shape[2:], j, p))
        boxes = [b for b in boxes if b[3] >= F(p["min_size"]) and b[4] >= F(p["min_size"])]
        order = sorted(range(len(boxes)), key=lambda k: (boxes[k][5], k), reverse=True)
        boxes = [boxes[k] for k in order]
        boxes = boxes[: p["max_nms_num"]] if p.get("max_nms_num") else boxes
        kept: list[Any] = []
        for b in boxes:
            if all(overlap(k, b) <= F(p["iou_thr"]) for k in kept):
                kept.append(b)
        found += kept[: p["max_post_nms_num"]] if p.get("max_post_nms_num") else kept
    rows = np.array([[b[0], b[1], b[2], b[1] + b[3], b[2] + b[4], b[5]] for b in found], F).reshape(-1, 6)
    if not found:
        return [np.array([0, 1, 1, 10, 10], F).reshape(1, 5, 1, 1), np.zeros((1, 6, 1, 1), F)]
    return [rows[:, :5, None, None], rows[:, :, None, None]]


def box(n: int, move: Array, score: Any, h: int, w: int, size: Any, j: int, p: dict[str, Any]) -> list[Any]:
    """Return the box [image, x, y, width, height, score] of one cell."""
    wide, high, rate = F(p["field_w"][j]), F(p["field_h"][j]), F(p["downsample_rate"][j])
    reach, most = F(1) / F(p.get("field_xyr", 2)), np.log(F(p.get("field_whr", 2)))
    least = np.log(F(1) / F(p.get("field_whr", 2)))
    x = min(max(-reach, move[0]), reach) * wide + (F(w) + F(0.5)) * rate
    y = min(max(-reach, move[1]), reach) * high + (F(h) + F(0.5)) * rate
    bw, bh = wide * np.exp(min(max(least, move[2]), most)), high * np.exp(min(max(least, move[3]), most))
    x, y = max(x - bw / F(2), F(0)), max(y - bh / F(2), F(0))
    return [n, x, y, min(bw, F(int(size[1] * rate)) - x), min(bh, F(int(size[0] * rate)) - y), score]


def maps(n: int = 1, seed: int = 0) -> list[Array]:
    return [noise(n, 7, 8, 12, seed=seed), noise(n, 7, 4, 6, seed=seed + 1)]


def agrees(p: dict[str, Any], outputs: int = 1, n: int = 1) -> Any:
    xs = maps(n)
    return case("BoxOutput", {"box_output_param": p}, inputs=xs, outputs=reference(xs, p)[:outputs])


test_regions = agrees(P)
test_regions_with_scores = agrees(P, 2)
test_several_images = agrees({**P, "max_nms_num": 20}, 2, n=3)
test_limits = agrees({**P, "max_nms_num": 30, "max_post_nms_num": 7}, 2, n=2)
test_reach_and_growth = agrees({**P, "field_xyr": 8, "field_whr": 1.25, "min_size": 30}, 2)
test_threshold = agrees({**P, "fg_thr": 1.5}, 2)
test_no_region = agrees({**P, "fg_thr": 100}, 2, n=2)
test_overlaps_above_one = agrees({**P, "iou_thr": 1.5}, 2)
MEAN, STD = [0.1, -0.1, 0.05, 0.0], [0.1, 0.1, 0.2, 0.2]
test_normalized_moves = case(
    "BoxOutput",
    {"box_output_param": P, "bbox_reg_param": {"bbox_mean": MEAN, "bbox_std": STD}},
    inputs=maps(),
    outputs=reference(maps(), P, MEAN, STD),
)
test_the_later_of_equal_scores_is_better = case(
    "BoxOutput",
    {"field_h": 10, "field_w": 10, "downsample_rate": 10, "min_size": 1, "max_post_nms_num": 2},
    inputs=[np.zeros((1, 6, 1, 3), F)],
    outputs=[np.array([[0, 20, 0, 30, 10], [0, 10, 0, 20, 10]], F)[:, :, None, None]],
)


def rejected(params: dict[str, Any], text: str, **given: Any) -> Any:
    return rejects("BoxOutput", {"box_output_param": {**P, **params}}, inputs=maps(), text=text, **given)


test_rejects_nms_type_other_than_iou = rejected({"nms_type": "IOMU"}, "nms_type 'IOMU' is not supported, only IOU")
test_rejects_negative_iou_thr = rejected({"iou_thr": -1.0}, "iou_thr must be at least 0, got -1")
test_rejects_field_whr_of_0 = rejected({"field_whr": 0.0}, "field_whr must be positive, got 0")
test_rejects_one_field_size_for_two_maps = rejected({"field_h": [40]}, "2 maps need 2 values of field_h, got 1")
test_rejects_third_output = rejected({}, "has at most 2 outputs (regions, regions with scores), got 3", tops=3)
test_rejects_bbox_mean_without_4_values = rejects(
    "BoxOutput",
    {"box_output_param": P, "bbox_reg_param": {"bbox_mean": [0.0], "bbox_std": STD}},
    inputs=maps(),
    text="bbox_mean must have 4 values (x, y, width, height), got 1",
)
test_rejects_maps_with_different_numbers_of_channels = rejects(
    "BoxOutput",
    {"box_output_param": P},
    inputs=[noise(1, 7, 8, 12), noise(1, 6, 4, 6)],
    text="maps must have the same number of images and of channels (2 classes or more, then 4): input 0 is "
    "(1, 7, 8, 12), input 1 is (1, 6, 4, 6)",
)
