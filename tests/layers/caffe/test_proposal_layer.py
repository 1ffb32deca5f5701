"""ProposalLayer: py-faster-rcnn's, in Python."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError
from anylayer.layers.caffe.proposal import read_param_str
from anylayer.network import Array
from tests.layers.caffe.boxes import F, greedy
from tests.layers.harness import Deferred, case, noise, ramp, rejects

P: dict[str, Any] = {"module": "rpn.proposal_layer", "layer": "ProposalLayer"}
SMALL = "'feat_stride': 16, 'scales': [1, 2], 'ratios': [0.5, 1, 2], 'min_size': 8"


def reference(scores: Array, deltas: Array, info: Array, p: dict[str, Any]) -> tuple[Array, Array]:
    """Compute proposal_layer.py one box at a time."""
    (h, w), a = scores.shape[2:], len(p["ratios"]) * len(p["scales"])
    high, wide, scale = info[0, :3]
    boxes, found = [], []
    for j, i, k in np.ndindex(h, w, a):
        anchor = (anchors(p)[k] + np.array([i, j, i, j]) * p["feat_stride"]).astype(F)
        size = anchor[2:] - anchor[:2] + F(1)
        d = deltas[0, 4 * k : 4 * k + 4, j, i]
        centre, half = d[:2] * size + (anchor[:2] + F(0.5) * size), F(0.5) * np.exp(d[2:]) * size
        box = np.concatenate([centre - half, centre + half])
        box = np.maximum(np.minimum(box, np.array([wide, high, wide, high], F) - 1), 0)
        if (box[2:] - box[:2] + 1 >= p["min_size"] * scale).all():
            boxes.append(box)
            found.append(scores[0, a + k, j, i])
    order = sorted(range(len(boxes)), key=lambda k: -found[k])[: p["pre_nms_topn"]]
    kept = greedy(boxes, order, lambda overlap: overlap > F(p["nms_thresh"]), 1.0)[: p["post_nms_topn"]]
    rois = np.array([[0, *boxes[k]] for k in kept], F).reshape(-1, 5)
    return rois, np.array([[found[k]] for k in kept], F).reshape(-1, 1)


def anchors(p: dict[str, Any]) -> Array:
    """Compute generate_anchors.py."""
    side, found = p.get("base_size", 16), []
    middle = 0.5 * (side - 1)
    for ratio in p["ratios"]:
        wide = np.round(np.sqrt(side * side / ratio))
        high = np.round(wide * ratio)
        for scale in p["scales"]:
            x, y = 0.5 * (wide * scale - 1), 0.5 * (high * scale - 1)
            found.append([middle - x, middle - y, middle + x, middle + y])
    return np.array(found)


def inputs(h: int = 5, w: int = 6, a: int = 6, info: tuple[float, ...] = (80, 96, 1)) -> list[Array]:
    count = 2 * a * h * w
    scores = np.random.default_rng(1).permutation(count).astype(F).reshape(1, 2 * a, h, w) / F(count)
    return [scores, noise(1, 4 * a, h, w, scale=0.4), np.array([info], F)]


DEFAULTS = {
    "ratios": [0.5, 1, 2], "scales": [8, 16, 32], "min_size": 16, "pre_nms_topn": 6000, "post_nms_topn": 300,
    "nms_thresh": 0.7,
}  # fmt: skip


def agrees(param_str: str, values: dict[str, Any], outputs: int = 1, **given: Any) -> Any:
    xs = inputs(**given)
    wanted = Deferred(outputs, lambda: reference(*xs, {**DEFAULTS, **values}))
    return case("ProposalLayer", {**P, "param_str": param_str}, inputs=xs, outputs=wanted)


test_its_defaults = agrees("'feat_stride': 16", {"feat_stride": 16}, 2, a=9, h=14, w=20, info=(224, 320, 1))
test_scales = agrees("{'feat_stride': 16, 'scales': [1, 2, 4]}", {"feat_stride": 16, "scales": [1, 2, 4]}, 2, a=9)
VALUES = {"feat_stride": 16, "scales": [1, 2], "ratios": [0.5, 1, 2], "min_size": 8}
test_ratios_and_small_boxes = agrees(SMALL, VALUES, 2)
test_small_boxes_do_not_take_part = agrees(SMALL, VALUES, 2, info=(80, 96, 2.5, 9))
test_limits = agrees(
    f"{SMALL}, 'pre_nms_topn': 30, 'post_nms_topn': 5, 'nms_thresh': 0.5",
    {**VALUES, "pre_nms_topn": 30, "post_nms_topn": 5, "nms_thresh": 0.5},
    2,
)
test_all_boxes_are_small = case(
    "ProposalLayer",
    {**P, "param_str": SMALL},
    inputs=inputs(info=(80, 96, 100)),
    outputs=[np.zeros((0, 5), F), np.zeros((0, 1), F)],
)
test_a_note_names_what_is_taken = case(
    "ProposalLayer",
    {**P, "param_str": f"{SMALL}\n'post_nms_topn': 1"},
    inputs=inputs(),
    outputs=Deferred(1, lambda: reference(*inputs(), {**DEFAULTS, **VALUES, "post_nms_topn": 1})),
    notes=[
        "takes py-faster-rcnn's defaults pre_nms_topn=6000, nms_thresh=0.7; a cfg.TEST with other values is not "
        "in the prototxt: write them into param_str"
    ],
)


def test_the_anchors_are_those_that_its_source_lists() -> None:
    first = anchors({"ratios": [0.5, 1, 2], "scales": [8, 16, 32]})
    assert first[[0, 3, 8]].tolist() == [[-84, -40, 99, 55], [-56, -56, 71, 71], [-168, -344, 183, 359]]


def rejected(param_str: str, text: str, **given: Any) -> Any:
    return rejects("ProposalLayer", {**P, "param_str": param_str, **given}, inputs=inputs(), text=text)


test_rejects_deep_expression = rejected(
    f"'feat_stride': {'-' * 5000}1", "feat_stride must be an integer of at least 1, got '-----"
)
test_rejects_very_deep_expression = rejected(
    f"'feat_stride': {'~' * 100_000}1", "feat_stride must be an integer of at least 1, got '~~~~~"
)
test_rejects_missing_feat_stride = rejected("", "param_str must give feat_stride, got ''")
test_rejects_misspelt_key = rejected(
    "'feat_stride': 16, 'scale': [8]", "param_str has no 'scale'; did you mean 'scales'?"
)
test_rejects_unknown_key = rejected(
    "'feat_stride': 16, 'k': 8", "param_str has no 'k'; it has: feat_stride, scales,"
)
test_rejects_empty_list_of_scales = rejected(
    "'feat_stride': 16, 'scales': []", "scales must be a list of positive numbers, got []"
)
test_rejects_feat_stride_that_is_not_a_number = rejected(
    "'feat_stride': x", "feat_stride must be an integer of at least 1, got 'x'"
)
test_rejects_nms_thresh_above_1 = rejected(
    "'feat_stride': 16, 'nms_thresh': 2", "nms_thresh must lie in 0..1, got 2"
)
test_rejects_list_in_block_style = rejected(
    "feat_stride: 16\nscales:\n- 8\n- 16", "param_str must be a mapping of numbers and lists of numbers, got"
)
test_rejects_class_of_unknown_module = rejected(
    "'feat_stride': 16",
    "the class ProposalLayer of module 'my.layers' is not known, only that of rpn.proposal_layer; define it in a "
    "layers file as ProposalLayer, which then replaces this layer",
    module="my.layers",
)
test_anchors_do_not_fit = rejected(
    "'feat_stride': 16", "scores must be of shape (1, 18, 5, 6) for 9 anchors (ratio x scale), got (1, 12, 5, 6)"
)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("'feat_stride': 16", {"feat_stride": 16}),
        ("{'feat_stride': 16, 'scales': !!python/tuple [4, 8]}", {"feat_stride": 16, "scales": [4, 8]}),
        ('"feat_stride": 16\n"ratios": [ .5, 1 ]\n', {"feat_stride": 16, "ratios": [0.5, 1]}),
        ("feat_stride: 8, mode: fast", {"feat_stride": 8, "mode": "fast"}),
        ("  ", {}),
    ],
)
def test_param_str_is_read(text: str, values: dict[str, Any]) -> None:
    assert read_param_str(text) == values


NETWORK = """
input: "s" input_shape { dim: 1 dim: 12 dim: 5 dim: 6 }
input: "d" input_shape { dim: 1 dim: 24 dim: 5 dim: 6 }
input: "i" input_shape { dim: 1 dim: 3 }
layer { name: "proposal" type: "Python" bottom: "s" bottom: "d" bottom: "i" top: "rois" python_param {
  module: "rpn.proposal_layer" layer: "ProposalLayer" param_str: "'feat_stride': 16, 'scales': [1, 2]" } }
"""


@pytest.fixture
def deploy(tmp_path: Path) -> Path:
    path = tmp_path / "deploy.prototxt"
    path.write_text(NETWORK)
    return path


def test_python_layer_of_pycaffe_is_proposal_layer(deploy: Path) -> None:
    net = anylayer.read(deploy)
    assert (net.network.nodes[0].type, net.unknown) == ("ProposalLayer", [])
    xs = inputs()
    rois = net.compile(engine="onnxruntime", threads=1)(dict(zip("sdi", xs)))["rois"]
    np.testing.assert_allclose(
        rois, reference(*xs, {**DEFAULTS, **VALUES, "min_size": 16})[0], rtol=1e-5, atol=1e-4
    )


def test_the_written_caffe_file_has_the_python_layer(deploy: Path, tmp_path: Path) -> None:
    anylayer.read(deploy).write(tmp_path / "written.prototxt")
    text = (tmp_path / "written.prototxt").read_text()
    assert 'type: "Python"' in text and 'layer: "ProposalLayer"' in text


def test_a_class_of_the_user_wins(deploy: Path) -> None:
    class Mine:
        def __init__(self, params: dict[str, Any], blobs: Any) -> None:
            self.text = params["param_str"]

        def forward(self, inputs: list[Array]) -> list[Array]:
            return [inputs[2] + np.float32(len(self.text))]

    net = anylayer.read(deploy, layers=[("ProposalLayer", Mine)])
    assert net.compile(engine="numpy")(dict(zip("sdi", inputs())))["rois"].tolist() == [[115, 131, 36]]


def test_a_class_of_another_module_is_named(tmp_path: Path) -> None:
    path = tmp_path / "deploy.prototxt"
    path.write_text(NETWORK.replace("rpn.proposal_layer", "my.rpn"))
    with pytest.raises(
        AnyLayerError, match=r"'proposal' \(ProposalLayer\): the class ProposalLayer of module 'my.rpn'"
    ):
        anylayer.read(path).compile(engine="onnxruntime")


test_rejects_batch_of_two_images = rejects(
    "ProposalLayer",
    {**P, "param_str": SMALL},
    inputs=[np.repeat(x, 2, axis=0) for x in inputs()],
    text="takes one image, got a batch of 2",
)
test_rejects_image_info_without_scale = rejects(
    "ProposalLayer",
    {**P, "param_str": SMALL},
    inputs=[*inputs()[:2], ramp(1, 2)],
    text="needs image height, width and scale, got 2 values",
)
