"""DetectionOutput: SSD's and its descendants', and the one of Caffe's YOLOv2 forks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from anylayer.errors import DialectError
from anylayer.layer import Registry, bind
from anylayer.network import Array, Node, TensorType
from tests.layers.caffe.boxes import F, adaptive, greedy, random_boxes
from tests.layers.harness import Case, case, noise, rejects
from tests.writers.caffe.opencv4 import opencv4

PRIORS = np.array([[[0, 0, 4, 4], [1, 0, 5, 4], [6, 6, 8, 8]], np.full((3, 4), 0.5)], F).reshape(1, 2, 12) / F(8)


def ssd(loc: Array, conf: Array, prior: Array, p: dict[str, Any]) -> Array:
    """Compute SSD's layer one box at a time (detection_output_layer.cpp, bbox_util.cpp)."""
    classes, background = p["num_classes"], p.get("background_label_id", 0)
    n, count = loc.shape[0], prior.shape[2] // 4
    start, variance = prior.reshape(2, count, 4)
    nms = p.get("nms_param", {})
    threshold, top_k = F(nms.get("nms_threshold", 0.3)), nms.get("top_k", -1)
    found = []
    for i in range(n):
        kept = []
        for c in range(classes):
            if c == background:
                continue
            side = 0 if p.get("share_location", True) else c
            boxes = [decode(loc[i].reshape(count, -1, 4)[j, side], start[j], variance[j], p) for j in range(count)]
            scores = conf[i].reshape(count, classes)[:, c]
            order = [j for j in range(count) if scores[j] > F(p.get("confidence_threshold", np.finfo(F).min))]
            order.sort(key=lambda j: -scores[j])
            order = order[:top_k] if top_k > -1 else order
            kept += [[i, c, scores[j], *boxes[j]] for j in adaptive(boxes, order, threshold, nms.get("eta", 1))]
        keep = p.get("keep_top_k", -1)
        if -1 < keep < len(kept):
            best = sorted(range(len(kept)), key=lambda k: -kept[k][2])[:keep]
            kept = [kept[k] for k in sorted(best)]
        found += kept
    return np.array(found or [[i] + [-1] * 6 for i in range(n)], F)[None, None]


def decode(loc: Array, prior: Array, variance: Array, p: dict[str, Any]) -> Array:
    coded = loc if p.get("variance_encoded_in_target") else variance * loc
    kind, size = p.get("code_type", "CORNER"), prior[2:] - prior[:2]
    if kind == "CORNER":
        return prior + coded
    if kind == "CORNER_SIZE":
        return prior + coded * np.concatenate([size, size])
    centre, half = coded[:2] * size + (prior[:2] + prior[2:]) / F(2), np.exp(coded[2:]) * size / F(2)
    return np.concatenate([centre - half, centre + half])


def inputs(p: dict[str, Any], n: int = 1, count: int = 40, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    sides = 1 if p.get("share_location", True) else p["num_classes"]
    variance = np.tile(np.array([0.1, 0.1, 0.2, 0.2], F), count)
    prior = np.stack([random_boxes(rng, count).reshape(-1), variance])[None]
    loc = rng.standard_normal((n, count * sides * 4)).astype(F)
    return [loc, rng.random((n, count * p["num_classes"])).astype(F), prior]


def agrees(p: dict[str, Any], **given: Any) -> Any:
    xs = inputs(p, **given)
    return case("DetectionOutput", p, inputs=xs, outputs=[ssd(*xs, p)])


CENTER: dict[str, Any] = {"num_classes": 3, "code_type": "CENTER_SIZE"}

test_shared = agrees({**CENTER, "nms_param": {"nms_threshold": 0.45}, "confidence_threshold": 0.3})
test_top_k = agrees({**CENTER, "nms_param": {"nms_threshold": 0.45, "top_k": 7}, "confidence_threshold": 0.3})
test_top_k_beyond_the_priors = agrees({**CENTER, "nms_param": {"top_k": 400}, "confidence_threshold": 0.9})
test_keep_top_k = agrees({**CENTER, "keep_top_k": 5, "confidence_threshold": 0.2})
test_keep_top_k_beyond_the_boxes = agrees({**CENTER, "keep_top_k": 500, "confidence_threshold": 0.8})
test_batch = agrees({**CENTER, "keep_top_k": 6, "nms_param": {"top_k": 9}, "confidence_threshold": 0.4}, n=3)
test_batch_keeps_all = agrees({**CENTER, "confidence_threshold": 0.4}, n=2)
test_batch_with_an_empty_image = agrees({**CENTER, "keep_top_k": 3, "confidence_threshold": 0.985}, n=4, seed=2)
test_own_boxes = agrees({**CENTER, "share_location": 0, "confidence_threshold": 0.3}, n=2)
test_own_boxes_top_k = agrees(
    {**CENTER, "share_location": 0, "nms_param": {"top_k": 6}, "keep_top_k": 4, "confidence_threshold": 0.3},
    n=2,
)
test_no_background = agrees({**CENTER, "background_label_id": 3, "confidence_threshold": 0.5})
test_no_background_own_boxes = agrees(
    {**CENTER, "background_label_id": -1, "share_location": 0, "confidence_threshold": 0.5}
)
test_rejects_missing_background_with_shared_boxes = rejects(
    "DetectionOutput",
    {**CENTER, "background_label_id": -1},
    inputs=inputs(CENTER),
    text="background_label_id: -1 with share_location: true is not defined: Caffe and OpenCV abort, because they "
    "mark shared boxes by -1 too. Where no class is the background give a number that is not a class, for example "
    "background_label_id: 3",
)
test_background_in_the_middle = agrees({**CENTER, "background_label_id": 1, "confidence_threshold": 0.5})
test_no_threshold = agrees(CENTER)
test_corner = agrees({"num_classes": 2, "code_type": "CORNER", "confidence_threshold": 0.2})
test_corner_size = agrees({"num_classes": 2, "code_type": "CORNER_SIZE", "confidence_threshold": 0.2})
test_corner_is_the_default = agrees({"num_classes": 2})
test_variance_in_target = agrees({**CENTER, "variance_encoded_in_target": 1, "confidence_threshold": 0.2})
test_threshold_above_one = agrees({**CENTER, "nms_param": {"nms_threshold": 1.5}, "confidence_threshold": 0.5})
test_eta_without_effect = agrees({**CENTER, "nms_param": {"nms_threshold": 0.5, "eta": 0.9}})
ETA = {**CENTER, "confidence_threshold": 0.1}
test_eta_once = agrees({**ETA, "nms_param": {"nms_threshold": 0.6, "eta": 0.5}})
test_eta_often = agrees({**ETA, "nms_param": {"nms_threshold": 0.9, "eta": 0.97}})
test_eta_own_boxes = agrees({**ETA, "share_location": 0, "nms_param": {"nms_threshold": 0.8, "eta": 0.9}}, n=2)
test_eta_top_k = agrees({**ETA, "nms_param": {"nms_threshold": 0.8, "eta": 0.9, "top_k": 9}, "keep_top_k": 7}, n=2)
test_eta_beyond_the_boxes = agrees({**ETA, "nms_param": {"nms_threshold": 0.95, "eta": 0.98, "top_k": 5}})
test_eta_nothing_found = agrees(
    {**ETA, "nms_param": {"nms_threshold": 0.9, "eta": 0.9}, "confidence_threshold": 2}
)
test_eta_threshold_above_one = agrees({**ETA, "nms_param": {"nms_threshold": 1.5, "eta": 0.8}})
test_nothing_found = agrees({**CENTER, "confidence_threshold": 2.0, "keep_top_k": 4}, n=3)
test_nothing_found_of_all = agrees({**CENTER, "confidence_threshold": 2.0}, n=2)

test_by_hand = case(
    "DetectionOutput",
    {"num_classes": 2, "nms_param": {"nms_threshold": 0.5}, "confidence_threshold": 0.25},
    inputs=[np.zeros((1, 12), F), [[0, 0.5, 0, 0.75, 0, 0.25]], PRIORS],
    outputs=[
        [[[[0, 1, 0.75, 0.125, 0, 0.625, 0.5]]]]
    ],  # 0 overlaps it by 12 / 20 > 0.5; 0.25 does not exceed 0.25
)
test_equal_scores_keep_the_earlier_prior = case(
    "DetectionOutput",
    {"num_classes": 2, "nms_param": {"nms_threshold": 0.5}, "confidence_threshold": 0.25},
    inputs=[np.zeros((1, 12), F), [[0, 0.5, 0, 0.5, 0, 0.5]], PRIORS],
    outputs=[[[[[0, 1, 0.5, 0, 0, 0.5, 0.5], [0, 1, 0.5, 0.75, 0.75, 1, 1]]]]],
)
test_flipped_boxes_overlap_nothing = case(
    "DetectionOutput",
    {"num_classes": 2, "nms_param": {"nms_threshold": 0.1}, "variance_encoded_in_target": 1},
    inputs=[
        np.zeros((1, 8), F),
        [[0, 0.5, 0, 0.75]],
        np.array([[[0.75, 0.75, 0.25, 0.25, 0.25, 0.25, 0.75, 0.75]]], F),
    ],
    outputs=[[[[[0, 1, 0.75, 0.25, 0.25, 0.75, 0.75], [0, 1, 0.5, 0.75, 0.75, 0.25, 0.25]]]]],
)
test_four_dimensions = case(
    "DetectionOutput",
    {"num_classes": 2, "confidence_threshold": 0.6},
    inputs=[
        np.zeros((1, 12, 1, 1), F),
        np.array([0, 0.5, 0, 0.75, 0, 0.25], F).reshape(1, 6, 1, 1),
        PRIORS[..., None],
    ],
    outputs=[[[[[0, 1, 0.75, 0.125, 0, 0.625, 0.5]]]]],
)


def rejected(params: dict[str, Any], text: str, **given: Any) -> Any:
    xs = given.pop("inputs", [np.zeros((1, 12), F), np.zeros((1, 6), F), PRIORS])
    return rejects("DetectionOutput", {"num_classes": 2, **params}, inputs=xs, text=text, **given)


test_rejects_eta_that_lowers_threshold_too_often = rejected(
    {"nms_param": {"nms_threshold": 0.9, "eta": 0.999}},
    "nms_param.eta=0.999 with nms_threshold=0.9 lowers the threshold from box to box more than 64 times",
)
test_rejects_eta_above_1 = rejected({"nms_param": {"eta": 1.5}}, "nms_param.eta must lie in (0, 1], got 1.5")
test_rejects_negative_threshold = rejected({"nms_param": {"nms_threshold": -1}}, "must not be negative, got -1")
test_rejects_top_k_of_0 = rejected({"nms_param": {"top_k": 0}}, "nms_param.top_k=0 keeps no box; -1 keeps all")
test_rejects_keep_top_k_of_0 = rejected({"keep_top_k": 0}, "keep_top_k=0 keeps no box; -1 keeps all")
test_rejects_num_classes_of_0 = rejected({"num_classes": 0}, "num_classes must be at least 1, got 0")
test_rejects_background_as_only_class = rejected(
    {"num_classes": 1}, "num_classes=1 leaves no class but background_label_id=0"
)
test_rejects_fewer_locations_than_priors_need = rejected(
    {},
    "3 priors and num_classes=2 need locations of shape (1, 12), got (1, 8)",
    inputs=[np.zeros((1, 8), F), np.zeros((1, 6), F), PRIORS],
)
test_rejects_fewer_confidences_than_priors_need = rejected(
    {"share_location": 0},
    "3 priors and num_classes=2 need confidences of shape (1, 6), got (1, 5)",
    inputs=[np.zeros((1, 24), F), np.zeros((1, 5), F), PRIORS],
)
test_rejects_priors_that_are_not_groups_of_4 = rejected(
    {},
    "priors must be of shape (1, 2, 4 * number of priors), got (1, 2, 13)",
    inputs=[np.zeros((1, 12), F), np.zeros((1, 6), F), np.zeros((1, 2, 13), F)],
)
test_rejects_priors_without_variances = rejected(
    {},
    "priors (1, 1, 12) hold no variances, which variance_encoded_in_target: false needs",
    inputs=[np.zeros((1, 12), F), np.zeros((1, 6), F), PRIORS[:, :1]],
)
test_rejects_missing_priors = rejected(
    {},
    "takes 3 inputs (locations, confidences, priors), got 2",
    inputs=[np.zeros((1, 12), F), np.zeros((1, 6), F)],
)
test_rejects_second_output = rejected({}, "has 1 output, got 2", tops=2)
test_rejects_objectness_score = rejected({"objectness_score": 0.01}, "objectness_score", dialect="ssd")
test_rejects_ascend_with_several_boxes = rejected({"boxes": 3}, "boxes must be 1 in a DetectionOutput, got 3")
test_rejects_ascend_fields_given_twice = rejected(
    {"nms_threshold": 0.5, "nms_param": {"top_k": 5}},
    "nms_threshold and top_k are given both in nms_param and besides it",
)
test_rejects_intel_priors_in_pixels = rejected(
    {"normalized": 0}, "normalized: false (priors in pixels, of 5 values each)"
)
test_rejects_opencv_without_limit_on_kept_boxes = rejected(
    {"normalized_bbox": 1}, "keep_top_k must be at least 1 for OpenCV's layer"
)
test_rejects_opencv_with_code_type_corner_size = rejected(
    {"normalized_bbox": 1, "keep_top_k": 3, "code_type": "CORNER_SIZE"},
    "code_type must be CORNER or CENTER_SIZE",
)


def ascend(p: dict[str, Any], meant: dict[str, Any], dialect: str | None) -> Any:
    xs = inputs({**CENTER, **meant})
    return case("DetectionOutput", p, inputs=xs, outputs=[ssd(*xs, {**CENTER, **meant})], dialect=dialect)


test_ascend_flat_fields = ascend(
    {**CENTER, "nms_threshold": 0.45, "top_k": 8},
    {"nms_param": {"nms_threshold": 0.45, "top_k": 8}, "variance_encoded_in_target": 1},
    None,
)
test_ascend_defaults = ascend({"num_classes": 3}, {"variance_encoded_in_target": 1}, "ascend")
test_intel_fields = ascend({**CENTER, "normalized": 1, "input_width": 300}, {}, None)


def opencv(loc: Array, conf: Array, prior: Array, p: dict[str, Any], size: tuple[int, int] | None) -> Array:
    """Compute OpenCV's layer one box at a time: rows by descending score, then zeros.

    Boxes are in pixels of an image of `size`, or normalized when it is None.
    """
    n, count, classes = loc.shape[0], prior.shape[2] // 4, p["num_classes"]
    extra = F(0) if size is None else F(1)
    high = np.array([1, 1] * 2 if size is None else [size[1] - 1, size[0] - 1] * 2, F)
    table = []
    for i in range(n):
        kept = []
        for c in range(1, classes):
            boxes = []
            for j in range(count):
                start, v = prior[0, 0].reshape(-1, 4)[j], prior[0, 1].reshape(-1, 4)[j] * loc[i].reshape(-1, 4)[j]
                sides = start[2:] - start[:2] + extra
                centre, half = v[:2] * sides + start[:2] + sides / F(2), np.exp(v[2:]) * sides / F(2)
                box = np.concatenate([centre - half, centre + half])
                boxes.append(np.maximum(np.minimum(box, high), F(0)) if p.get("clip") else box)
            scores = conf[i].reshape(count, classes)[:, c]
            order = sorted((j for j in range(count) if scores[j] > 0.2), key=lambda j: -scores[j])
            kept += [[i, c, scores[j], *boxes[j]] for j in greedy(boxes, order, lambda o: o > F(0.4), extra)]
        table += sorted(kept, key=lambda row: -row[2])[: p["keep_top_k"]]
    table += [[0] * 7] * (n * p["keep_top_k"] - len(table))
    return np.array(table, F)[None, None]


def opencv_case(keep: int, n: int, size: tuple[int, int] | None = (100, 100), **more: Any) -> Any:
    p = {**CENTER, "nms_param": {"nms_threshold": 0.4}, "keep_top_k": keep, "confidence_threshold": 0.2, **more}
    loc, conf, prior = inputs(p, n=n)
    if size is not None:
        prior[:, 0] *= 100
    image = [np.zeros((n, 3, *size), F)] if size is not None and "clip" in more else []
    return case(
        "DetectionOutput",
        {**p, "normalized_bbox": int(size is None)},
        inputs=[loc, conf, prior, *image],
        outputs=[opencv(loc, conf, prior, p, size)],
    )


test_opencv_pixels = opencv_case(5, 2)
test_opencv_fills_with_zeros = opencv_case(100, 2)
test_opencv_normalized = opencv_case(20, 1, None)
test_opencv_clip = opencv_case(50, 2, None, clip=1)
test_opencv_clip_of_pixels = opencv_case(50, 2, (60, 80), clip=1)
test_opencv_clip_may_be_false = opencv_case(5, 1, None, clip=0)
test_opencv_clip_is_told_by_its_field = case(
    "DetectionOutput",
    {**CENTER, "keep_top_k": 4, "confidence_threshold": 2.0, "clip": 1},
    inputs=inputs(CENTER),
    outputs=[np.zeros((1, 1, 4, 7), F)],
)
test_opencv_clip_of_pixels_needs_the_image = rejected(
    {"normalized_bbox": 0, "clip": 1, "keep_top_k": 5},
    "clip with normalized_bbox: false needs the image (N, C, H, W) as a fourth input, to know its size",
)


def test_opencv_itself_cuts_boxes_off(tmp_path: Path) -> None:
    p = {**CENTER, "nms_param": {"nms_threshold": 0.4}, "keep_top_k": 50, "confidence_threshold": 0.2, "clip": 1}
    xs = inputs(p)
    shapes = [" ".join(f"dim: {d}" for d in x.shape) for x in xs]
    head = "".join(f'input: "in{i}" input_shape {{ {s} }}\n' for i, s in enumerate(shapes))
    (tmp_path / "net.prototxt").write_text(
        head
        + 'layer { name: "o" type: "DetectionOutput" bottom: "in0" bottom: "in1" bottom: "in2" top: "o" '
        + "detection_output_param { num_classes: 3 share_location: true background_label_id: 0 "
        + "code_type: CENTER_SIZE nms_param { nms_threshold: 0.4 } "
        + "keep_top_k: 50 confidence_threshold: 0.2 clip: true } }"
    )
    got = opencv4().run(tmp_path / "net.prototxt", None, {f"in{i}": x for i, x in enumerate(xs)})[""]
    np.testing.assert_allclose(got, opencv(*xs, p, None), atol=1e-6)


def refinedet(xs: list[Array], p: dict[str, Any]) -> Array:
    """Compute RefineDet's layer one prior at a time: SSD's layer for the priors that the first stage keeps."""
    loc, conf, prior, chances, *moves = (x.copy() for x in xs)
    n, count = loc.shape[0], prior.shape[2] // 4
    tables = []
    for i in range(n):
        own = prior.copy()
        for j in range(count):
            if chances[i, 2 * j + 1] < F(p.get("objectness_score", 0.01)):
                conf[i].reshape(count, -1)[j] = np.arange(p["num_classes"]) == 0
            if moves:
                box = slice(4 * j, 4 * j + 4)
                own[0, 0, box] = decode(moves[0][i, box], prior[0, 0, box], prior[0, 1, box], p)
        table = ssd(loc[i : i + 1], conf[i : i + 1], own, p)[0, 0]
        table[:, 0] = i
        tables.append(table[table[:, 1] >= 0])
    return np.concatenate(tables)[None, None]


def refinedet_case(p: dict[str, Any], *, moved: bool = True, **given: Any) -> Any:
    xs = inputs(p, n=2)
    rng = np.random.default_rng(5)
    xs += [rng.random((2, 80)).astype(F), (rng.standard_normal((2, 160)) * 0.5).astype(F)][: 1 + moved]
    return case("DetectionOutput", p, inputs=xs, outputs=[refinedet(xs, p)], **given)


REFINE = {
    **CENTER,
    "confidence_threshold": 0.2,
    "keep_top_k": 20,
    "nms_param": {"nms_threshold": 0.45, "top_k": 30},
}
test_refinedet = refinedet_case({**REFINE, "objectness_score": 0.3})
test_refinedet_is_told_by_five_inputs = refinedet_case(REFINE)
test_refinedet_priors_may_stay = refinedet_case({**REFINE, "objectness_score": 0.5}, moved=False)
test_refinedet_own_boxes = refinedet_case({**REFINE, "share_location": 0}, moved=False, dialect="refinedet")
test_refinedet_filtered_scores_count_without_a_threshold = refinedet_case({**CENTER, "objectness_score": 0.7})
test_rejects_refinedet_without_shared_boxes = rejects(
    "DetectionOutput",
    {"num_classes": 2, "share_location": 0},
    inputs=[np.zeros((1, 24), F), np.zeros((1, 6), F), PRIORS, np.zeros((1, 6), F), np.zeros((1, 12), F)],
    text="share_location must be true when the first stage moves the priors",
)
test_rejects_refinedet_with_too_few_probabilities = rejects(
    "DetectionOutput",
    {"num_classes": 2},
    inputs=[np.zeros((1, 12), F), np.zeros((1, 6), F), PRIORS, np.zeros((1, 5), F), np.zeros((1, 12), F)],
    text="3 priors need the first stage's probabilities of shape (1, 6), got (1, 5)",
)
test_rejects_refinedet_with_3_inputs = rejects(
    "DetectionOutput",
    {"num_classes": 2},
    inputs=[np.zeros((1, 12), F), np.zeros((1, 6), F), PRIORS],
    text="takes 4 or 5 inputs (those of SSD, probabilities, offsets), got 3",
    dialect="refinedet",
)

YOLO: dict[str, Any] = {
    "side": 4,
    "num_classes": 3,
    "num_box": 2,
    "biases": [0.7, 0.9, 2.5, 2.0],
    "confidence_threshold": 0.3,
    "nms_threshold": 0.4,
}


def yolov2(x: Array, p: dict[str, Any]) -> Array:
    """Compute the layer of gklz1982/caffe-yolov2 one box at a time, in the order of the cells."""
    side, per, anchors = p["side"], 5 + p["num_classes"], np.array(p["biases"], F).reshape(-1, 2)
    rows, clipped = [], []
    for j in range(side):
        for i in range(side):
            for b in range(p["num_box"]):
                v = x[0, b * per : (b + 1) * per, j, i]
                e = np.exp(v[5:] - v[5:].max())
                chance = e / e.sum()
                score = chance.max() / (F(1) + np.exp(-v[4]))
                if score < F(p["confidence_threshold"]):
                    continue
                centre = (np.array([i, j], F) + F(1) / (F(1) + np.exp(-v[:2]))) / F(side)
                size = np.exp(v[2:4]) * anchors[b] / F(side)
                rows.append([0, chance.argmax(), score, *centre, *size])
                clipped.append(np.clip(np.concatenate([centre - size / F(2), centre + size / F(2)]), 0, 1))
    kept = greedy(clipped, range(len(rows)), lambda overlap: overlap >= F(p["nms_threshold"]))
    return np.array([rows[k] for k in kept] or [[0] + [-1] * 6], F)[None, None]


def yolo_case(p: dict[str, Any], **given: Any) -> Any:
    x = noise(1, 16, 4, 4, seed=3)
    return case("DetectionOutput", p, inputs=[x], outputs=[yolov2(x, p)], **given)


test_yolov2_is_told_by_one_input = yolo_case(YOLO)
test_yolov2_dialect = yolo_case(YOLO, dialect="yolov2")
test_yolov2_nothing_found = yolo_case({**YOLO, "confidence_threshold": 0.999})
test_rejects_yolov2_side_that_differs_from_map = rejects(
    "DetectionOutput", {**YOLO, "side": 5}, inputs=[noise(1, 16, 4, 4)], text="side=5 does not fit a map of 4 x 4"
)
test_rejects_yolov2_with_too_few_channels = rejects(
    "DetectionOutput",
    YOLO,
    inputs=[noise(1, 15, 4, 4)],
    text="2 boxes of 5 + num_classes=3 values need 16 channels, got 15",
)
test_rejects_yolov2_with_two_images = rejects(
    "DetectionOutput", YOLO, inputs=[noise(2, 16, 4, 4)], text="takes one image, got a batch of 2"
)
test_rejects_yolov2_with_too_few_biases = rejects(
    "DetectionOutput", {**YOLO, "num_box": 3}, inputs=[noise(1, 24, 4, 4)], text="num_box=3 needs 6 biases, got 4"
)
test_rejects_yolov2_with_5_coords = rejects(
    "DetectionOutput", {**YOLO, "coords": 5}, inputs=[noise(1, 16, 4, 4)], text="coords must be 4, got 5"
)
test_yolov2_needs_num_classes = rejects(
    "DetectionOutput",
    {"num_box": 2, "biases": [1, 1, 2, 2]},
    inputs=[noise(1, 16, 4, 4)],
    text="parameter 'num_classes' is missing",
)


def test_fields_of_no_known_fork_are_refused_with_the_candidates() -> None:
    node = Case("DetectionOutput", {"num_classes": 2, "boxes": 1, "normalized_bbox": 1}, [np.zeros(1)] * 3).node()
    with pytest.raises(DialectError, match=r"'DetectionOutput' fits none of 7 things.*ascend: Decode boxes"):
        bind(node, Registry.of("caffe").find("DetectionOutput"), [TensorType.of((1,))] * 3)


def test_common_fields_mean_ssd() -> None:
    node = Node("d", "DetectionOutput", ["a", "b", "c"], ["y"], {"detection_output_param": {"num_classes": 2}})
    bound = bind(node, Registry.of("caffe").find("DetectionOutput"), [TensorType.of((1,))] * 3)
    assert type(bound.instance).__name__ == "DetectionOutput"


def test_sophgo_keeps_prior_0_of_each_class() -> None:
    inputs = [np.zeros((1, 8), np.float32), np.array([[0.1, 0.2, 0.3, 0.1, 0.05, 0.4]], np.float32)]
    inputs.append(np.array([[[0, 0, 0.5, 0.5, 0.5, 0.5, 1, 1], [0.1] * 8]], np.float32))
    fields = {"num_classes": 3, "confidence_threshold": 0.35}
    (y,) = case("DetectionOutput", fields, inputs=inputs, dialect="sophgo").case.bind()(inputs)
    np.testing.assert_allclose(y[0, 0, :, :3], [[0, 1, 0.2], [0, 2, 0.4], [0, 2, 0.3]])
