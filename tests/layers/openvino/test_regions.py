"""Tests of boxes, regions and anchors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from openvino import opset1 as o1
from openvino import opset2 as o2
from openvino import opset3 as o3
from openvino import opset4 as o4
from openvino import opset6 as o6
from openvino import opset8 as o8
from openvino import opset9 as o9
from openvino import opset15 as o15

from .harness import const, matches, noise, read_net, reference, refuses, save

X = noise(1, 3, 8, 9)
F = np.float32
GRID = np.random.default_rng(4).random((1, 4, 5, 2)).astype(F) * F(2.4) - F(1.2)
ROIS = np.array([[0.5, 1, 6, 5], [2, 0, 8, 7.3]], F)
NAMED = np.array([[0, 1, 1, 7, 6], [0, 2, 0, 8, 7]], F)
CASES = {
    f"grid_sample {mode} {padding} {corners}": matches(
        lambda x, g, m=mode, p=padding, c=corners: o9.grid_sample(
            x, g, {"align_corners": c, "mode": m, "padding_mode": p}
        ),
        X,
        GRID,
    )
    for mode in ("bilinear", "nearest", "bicubic")
    for padding in ("zeros", "border", "reflection")
    for corners in (True, False)
}
CASES |= {
    f"roi_align {mode}": matches(
        lambda x, r, m=mode: o9.roi_align(x, r, const([0, 0], np.int32), 3, 2, 2, 0.9, "avg", m), X, ROIS
    )
    for mode in ("asymmetric", "half_pixel", "half_pixel_for_nn")
}
CASES["roi_align opset3"] = matches(
    lambda x, r: o3.roi_align(x, r, const([0, 0], np.int32), 3, 2, 2, 0.9, "avg"), X, ROIS
)
CASES["roi_pooling"] = matches(lambda x, r: o15.roi_pooling(x, r, [3, 2], 0.9, "max"), X, NAMED)
CASES["psroi_pooling"] = matches(
    lambda x, r: o1.psroi_pooling(x, r, 2, 3, 0.5, 1, 1, "average"), noise(1, 18, 8, 9), 2 * NAMED
)
ANCHORS = [1.0, 2.0, 3.0, 4.0]
CASES["region_yolo softmax"] = matches(
    lambda x: o1.region_yolo(x, 4, 3, 2, True, [0, 1], 1, 3, ANCHORS), noise(1, 16, 3, 4)
)
CASES["region_yolo"] = matches(
    lambda x: o1.region_yolo(x, 4, 3, 6, False, [0, 1], 1, 3, ANCHORS), noise(1, 16, 3, 4)
)
CASES["reorg_yolo"] = matches(lambda x: o2.reorg_yolo(x, [2]), noise(1, 8, 4, 6))
CASES["ctc"] = matches(
    lambda x, n: o6.ctc_greedy_decoder_seq_len(x, n, const(5, np.int32), True, "i32", "i32").outputs(),
    noise(2, 9, 6),
    np.array([9, 5], np.int32),
)
VARIANCE = np.array([0.1, 0.1, 0.2, 0.2], F)
PRIOR = {
    "min_size": np.array([10.5], F), "max_size": np.array([20], F), "aspect_ratio": np.array([2, 3], F),
    "flip": True, "offset": 0.5, "variance": VARIANCE, "scale_all_sizes": True,
}  # fmt: skip
CASES |= {
    f"prior_box {step} {clip}": matches(
        lambda x, step=step, clip=clip: [
            o1.prior_box(const([3, 4]), const([32, 40]), {**PRIOR, "step": step, "clip": clip}).output(0),
            o1.relu(x).output(0),
        ],
        X,
    )
    for step in (8.0, 0.0)
    for clip in (True, False)
}
CLUSTERED = {
    "width": np.array([10.5, 7], F), "height": np.array([20, 3], F), "clip": False, "step_widths": 8.0,
    "step_heights": 6.0, "offset": 0.5, "variance": VARIANCE,
}  # fmt: skip
CASES["prior_box_clustered"] = matches(
    lambda x: [
        o1.prior_box_clustered(const([3, 4]), const([32, 40]), CLUSTERED).output(0),
        o1.relu(x).output(0),
    ],
    X,
)
test_roi_align_rejects_max = refuses(
    lambda x, r: o9.roi_align(x, r, const([0, 0], np.int32), 3, 2, 2, 0.9, "max", "half_pixel"),
    X,
    ROIS,
    text="mode 'max' is not supported",
)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)


def leading(path: Path, inputs: list[np.ndarray], rows: int) -> None:
    """Check that the rows before the first row marked by -1 match OpenVINO."""
    net = read_net(path)
    got = next(iter(net.compile(engine="numpy")(dict(zip(net.inputs, inputs))).values())).reshape(-1, rows)
    want = reference(path, inputs)[0].reshape(-1, rows)
    ends = np.flatnonzero(want[:, 0] < 0)
    count = int(ends[0]) if len(ends) else len(want)
    assert 0 < len(got) == count
    assert np.abs(got - want[:count]).max() < 1e-4 * np.abs(want).max()


@pytest.mark.parametrize("clip_after", [False, True])
@pytest.mark.parametrize("clip_before", [False, True])
def test_proposal_matches_leading_rows(tmp_path: Path, clip_before: bool, clip_after: bool) -> None:
    whole = {"base_size": 16, "pre_nms_topn": 60, "post_nms_topn": 8, "feat_stride": 16, "min_size": 4}
    options = {
        **{name: np.uint64(value) for name, value in whole.items()},
        "nms_thresh": F(0.5),
        "ratio": np.array([0.5, 1, 2], F),
        "scale": np.array([2, 4], F),
        "clip_before_nms": clip_before,
        "clip_after_nms": clip_after,
    }
    random = np.random.default_rng(0)
    inputs = [random.random((1, 12, 5, 6)).astype(F), noise(1, 24, 5, 6) * F(0.3), np.array([80, 96, 1], F)]
    save(lambda s, d, i: [o4.proposal(s, d, i, options).outputs()[0]], inputs, tmp_path / "net.xml")
    leading(tmp_path / "net.xml", inputs, 5)


@pytest.mark.parametrize("opset", [o1, o8])
def test_detection_output_matches_leading_rows(opset: Any, tmp_path: Path) -> None:
    options = {
        "background_label_id": 0, "top_k": 10, "variance_encoded_in_target": False, "keep_top_k": [5],
        "code_type": "caffe.PriorBoxParameter.CENTER_SIZE", "share_location": True, "nms_threshold": 0.45,
        "confidence_threshold": 0.2, "normalized": True, **({"num_classes": 4} if opset is o1 else {}),
    }  # fmt: skip
    random = np.random.default_rng(0)
    low = random.random((20, 2)) * 0.7
    boxes = np.concatenate([low, low + 0.1 + random.random((20, 2)) * 0.2], 1).astype(F)
    priors = np.stack([boxes.ravel(), np.tile(VARIANCE, 20)])[None]
    scores = np.exp(2 * noise(1, 20, 4))
    scores = (scores / scores.sum(-1, keepdims=True)).reshape(1, -1).astype(F)
    inputs = [noise(1, 80) * F(0.3), scores, priors]
    save(lambda x, c, p: opset.detection_output(x, c, p, options), inputs, tmp_path / "net.xml")
    leading(tmp_path / "net.xml", inputs, 7)
