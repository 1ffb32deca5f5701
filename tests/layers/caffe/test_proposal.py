"""Proposal: Faster R-CNN's regions of interest."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Registry, bind
from anylayer.network import Array, Node, TensorType, Word
from anylayer.testing import check_function
from tests.layers.caffe.boxes import F, greedy
from tests.layers.harness import case, noise, rejects

P: dict[str, Any] = {
    "base_size": 16,
    "feat_stride": 16,
    "min_size": 8,
    "ratio": [0.5, 1.0, 2.0],
    "scale": [2.0, 4.0],
    "pre_nms_topn": 60,
    "post_nms_topn": 12,
    "nms_thresh": 0.6,
}


def reference(scores: Array, deltas: Array, info: Array, p: dict[str, Any]) -> tuple[Array, Array]:
    """Compute proposal_layer.cpp and nms.cpp one box at a time."""
    (h, w), a = scores.shape[2:], len(p["ratio"]) * len(p["scale"])
    high, wide, scale = info.reshape(-1)[:3]
    least = (F(p["min_size"]) * (info.reshape(-1)[3] if info.size > 3 else scale), F(p["min_size"]) * scale)
    boxes, found = [], []
    for j, i, k in np.ndindex(h, w, a):
        anchor = anchors(p)[k] + np.array([i, j, i, j], F) * F(p["feat_stride"])
        size = anchor[2:] - anchor[:2] + F(1)
        d = deltas[0, 4 * k : 4 * k + 4, j, i]
        centre = d[:2] * size + anchor[:2] + F(0.5) * size
        half = F(0.5) * np.exp(d[2:]) * size
        box = np.concatenate([centre - half, centre + half])
        box = np.maximum(F(0), np.minimum(box, np.array([wide, high, wide, high], F) - F(1)))
        boxes.append(box)
        large = box[2] - box[0] + F(1) >= least[0] and box[3] - box[1] + F(1) >= least[1]
        found.append(scores[0, a + k, j, i] * F(large))
    order = sorted(range(len(boxes)), key=lambda k: -found[k])[: p["pre_nms_topn"]]
    kept = greedy(boxes, order, lambda overlap: overlap > F(p["nms_thresh"]), 1.0)[: p["post_nms_topn"]]
    return np.array([[0, *boxes[k]] for k in kept], F), np.array([found[k] for k in kept], F)


def anchors(p: dict[str, Any]) -> list[Array]:
    area, middle, found = F(p["base_size"] ** 2), F(0.5) * F(p["base_size"] - 1), []
    for ratio in p["ratio"]:
        wide = F(int(np.sqrt(area / F(ratio)) + F(0.5)))
        high = F(int(wide * F(ratio) + F(0.5)))
        for scale in p["scale"]:
            x, y = F(0.5) * (wide * F(scale) - F(1)), F(0.5) * (high * F(scale) - F(1))
            found.append(np.array([middle - x, middle - y, middle + x, middle + y], F))
    return found


def inputs(h: int = 5, w: int = 6, a: int = 6, info: tuple[float, ...] = (80, 96, 1)) -> list[Array]:
    scores = np.random.default_rng(1).permutation(2 * a * h * w).astype(F).reshape(1, 2 * a, h, w) / F(
        2 * a * h * w
    )
    return [scores, noise(1, 4 * a, h, w, scale=0.4), np.array([info], F)]


def agrees(p: dict[str, Any], outputs: int = 2, **given: Any) -> Any:
    xs = inputs(**given)
    rois = reference(*xs, p)
    return case("Proposal", p, inputs=xs, outputs=list(rois[:outputs]))


test_regions = agrees(P, outputs=1)
test_regions_and_scores = agrees(P)
test_all_boxes_enter = agrees({**P, "pre_nms_topn": 6000, "post_nms_topn": 40})
test_fewer_than_asked = agrees({**P, "nms_thresh": 0.1, "post_nms_topn": 300})
test_small_boxes_come_last = agrees({**P, "min_size": 40, "pre_nms_topn": 1000, "post_nms_topn": 60})
test_scale_of_the_image = agrees({**P, "min_size": 16}, info=(80, 96, 2.5))
test_scales_of_height_and_width = agrees({**P, "min_size": 16}, info=(80, 96, 1.5, 3.0))
test_stride = agrees({**P, "feat_stride": 8, "base_size": 8}, info=(60, 70, 1))
test_one_anchor = agrees({**P, "ratio": 1.0, "scale": 3.0} | {"ratio": [1.0], "scale": [3.0]}, a=1)


def as_opencv(p: dict[str, Any], outputs: int = 2) -> Any:
    """OpenCV ignores min_size and pads with rows of zeros."""
    xs = inputs()
    rois, scores = reference(*xs, {**p, "min_size": 0})
    missing = p["post_nms_topn"] - len(rois)
    found = [np.pad(x, [(0, missing), (0, 0)]) for x in (rois, scores[:, None])]
    return case("Proposal", p, inputs=xs, outputs=found[:outputs], dialect="opencv")


test_opencv = as_opencv({**P, "min_size": 40})
test_opencv_regions_alone = as_opencv({**P, "min_size": 40}, outputs=1)
test_opencv_fills_with_zeros = as_opencv({**P, "nms_thresh": 0.1, "post_nms_topn": 300})

test_by_hand = case(
    "Proposal",
    {"ratio": 1, "scale": 1, "min_size": 1},
    inputs=[np.array([0, 0, 0.25, 0.75], F).reshape(1, 2, 1, 2), np.zeros((1, 4, 1, 2), F), [[16, 30, 1]]],
    outputs=[
        [[0, 16, 0, 29, 15], [0, 0, 0, 16, 15]],
        [0.75, 0.25],
    ],  # ends are one further than the anchor's; cut at the image
)


def rejected(params: dict[str, Any], text: str, **given: Any) -> Any:
    xs = given.pop("inputs", None) or inputs()
    return rejects("Proposal", {**P, **params}, inputs=xs, text=text, **given)


test_rejects_missing_ratio = rejected({"ratio": []}, "needs at least one ratio and one scale")
test_rejects_negative_ratio = rejected({"ratio": [-1.0, 1.0, 2.0]}, "ratio must be positive, got -1")
test_rejects_nms_thresh_above_1 = rejected({"nms_thresh": 1.5}, "nms_thresh must lie in 0..1, got 1.5")
test_rejects_feat_stride_of_0 = rejected({"feat_stride": 0}, "feat_stride must be at least 1, got 0")
test_rejects_pre_nms_topn_of_0 = rejected({"pre_nms_topn": 0}, "pre_nms_topn must be at least 1, got 0")
test_rejects_batch_of_two_images = rejected(
    {}, "takes one image, got a batch of 2", inputs=[np.repeat(x, 2, axis=0) for x in inputs()]
)
test_rejects_scores_for_other_number_of_anchors = rejected(
    {"scale": [1.0]}, "scores must be of shape (1, 6, 5, 6) for 3 anchors (ratio x scale), got (1, 12, 5, 6)"
)
test_rejects_deltas_for_other_number_of_anchors = rejected(
    {},
    "box deltas must be of shape (1, 24, 5, 6) for 6 anchors (ratio x scale), got (1, 20, 5, 6)",
    inputs=[inputs()[0], noise(1, 20, 5, 6), inputs()[2]],
)
test_rejects_image_info_without_scale = rejected(
    {}, "needs image height, width and scale, got 2 values", inputs=[*inputs()[:2], np.array([[80, 96]], F)]
)
test_rejects_third_output = rejected({}, "has at most 2 outputs (rois, scores), got 3", tops=3)
test_rejects_field_of_ascends_layer = rejects(
    "Proposal",
    {"ratio": [1.0], "scale": [1.0], "iou_threshold": 0.7},
    inputs=inputs(),
    text="Ascend's Proposal, with rois of shape (N, 5, post_nms_topn), is not supported",
)
test_rejects_dialect_ascend = rejected({}, "Ascend's Proposal", dialect="ascend")
test_rejects_dialect_synopsys = rejects(
    "Proposal",
    {"feat_stride": 16, "anchor_base_size": 16, "max_rois": 300},
    inputs=inputs(),
    text="synopsys-caffe's Proposal is not supported: it compares boxes in the order of the anchors",
)


def _apply(type: str, params: dict[str, Any], inputs: list[Any], blobs: list[Array] | None = None) -> Any:
    definitions = Registry.of("caffe").find(type)
    names = [f"in{i}" for i in range(len(inputs))]
    node = Node(type, type, names, ["out"], {definitions[0].cls.message: params}, blobs or [], f"layer '{type}'")
    return bind(node, definitions, [TensorType(tuple(x.shape)) for x in inputs])(inputs)[0]


def test_fast_rcnn_runs_on_as_many_regions_as_are_found() -> None:
    weights, bias = noise(6, 4 * 9, seed=2), noise(6, seed=3)

    def network(*xs: Array) -> Any:
        rois = _apply("Proposal", {**P, "nms_thresh": 0.2}, list(xs[:3]))
        y = _apply("ROIPooling", {"pooled_h": 3, "pooled_w": 3, "spatial_scale": 0.0625}, [xs[3], rois])
        y = _apply("InnerProduct", {"num_output": 6}, [y], [weights, bias])
        return _apply("Softmax", {}, [_apply("ReLU", {}, [y])])

    xs = [*inputs(), noise(1, 4, 5, 6)]
    assert network(*xs).shape == (11, 6)
    graph = check_function(network, *xs)
    assert str(graph.outputs[0].shape[0]).endswith("<=12")


def test_r_fcn_runs_on_as_many_regions_as_are_found() -> None:
    def network(*xs: Array) -> Any:
        rois = _apply("Proposal", {**P, "nms_thresh": 0.2}, list(xs[:3]))
        bins = {"output_dim": 2, "group_size": 3, "spatial_scale": 0.0625}
        y = _apply("PSROIPooling", bins, [xs[3], rois])
        y = _apply("Pooling", {"pool": Word("AVE"), "kernel_size": 3}, [y])
        return _apply("Softmax", {}, [_apply("Reshape", {"shape": {"dim": [-1, 2]}}, [y])])

    xs = [*inputs(), noise(1, 18, 5, 6)]
    assert network(*xs).shape == (11, 2)
    check_function(network, *xs)


SOPHGO = {"net_input_h": 400, "net_input_w": 400, "rpn_nms_post_top_n": 2, "rpn_nms_threshold": 0.1}
SOPHGO_SCORES = np.zeros((1, 18, 1, 2), np.float32)
SOPHGO_SCORES[0, [9, 12, 15], 0, 1] = 0.5, 0.7, 0.6  # the smallest anchor of each ratio, in the second cell
test_sophgo_pairs_drop_the_lower_score = case(
    "Proposal",
    SOPHGO,
    inputs=[SOPHGO_SCORES, np.zeros((1, 36, 1, 2))],
    outputs=[[[[[0, 0, 0, 87.5, 71.5], [0] * 5]]]],
    engines=(),
)
test_sophgo_cuts_in_the_order_of_the_anchors = case(
    "Proposal",
    {**SOPHGO, "rpn_nms_post_top_n": 1, "rpn_nms_threshold": 1.0},
    inputs=[SOPHGO_SCORES, np.zeros((1, 36, 1, 2))],
    outputs=[[[[[0, 0, 0, 115.5, 55.5]]]]],
    engines=(),
)
test_sophgo_rejects_batches = rejects(
    "Proposal",
    SOPHGO,
    inputs=[np.zeros((2, 18, 1, 2)), np.zeros((2, 36, 1, 2))],
    text="scores must be of shape (1, 18, 1, 2) (Sophgo's result for a batch is not known), got (2, 18, 1, 2)",
)
