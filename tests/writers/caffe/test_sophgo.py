"""Files for Sophgo's Caffe: its field numbers, its poolings, and round trips of its golden data."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tools.reference import needs_data

import anylayer
from anylayer import ops
from anylayer.layer import Registry
from anylayer.testing import assert_same
from tests.conformance.test_sophgo import COMPUTED, key
from tests.layers.harness import noise
from tests.writers.caffe.harness import check
from tests.writers.caffe.test_round_trip import assert_equal, rewritten

NUMBERS = {
    "bn_param": 162, "clip_param": 165, "interp_param": 161, "norm_param": 206, "permute_param": 202,
    "prior_box_param": 203, "detection_output_param": 204, "roi_pooling_param": 154, "psroi_pooling_param": 153,
    "spatial_dropout_param": 155, "reorg_param": 159, "upsample_param": 160, "shuffle_channel_param": 164,
    "relu6_param": 167, "reverse_param": 309, "padding_param": 166, "yolo_detection_param": 303,
    "matmul_param": 307, "lstm_param": 310, "continuation_indicator_param": 311, "smooth_l1_loss_param": 148,
    "proposal_param": 304, "retinaface_detection_param": 302, "frcn_detection_param": 305,
    "eval_detection_param": 301,
}  # fmt: skip
"""The numbers of the fork's LayerParameter, which differ from those of BVLC or of other forks."""


def test_definitions_have_the_forks_numbers() -> None:
    found = {}
    for definition in Registry.of("caffe").definitions():
        if definition.typed and "sophgo" in definition.layer_class.numbers:
            found[definition.layer_class.message] = definition.layer_class.numbers["sophgo"]
    assert found == NUMBERS


TEXT = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 16 dim: 4 dim: 4 } } }
layer { name: "bn" type: "BN" bottom: "x" top: "a" bn_param { bn_mode: INFERENCE scale_filler { value: 2 } } }
layer { name: "clip" type: "Clip" bottom: "a" top: "b" clip_param { min: -1 max: 1 } }
layer { name: "pool" type: "Pooling" bottom: "b" top: "c"
        pooling_param { pool: AVE kernel_size: 2 yolo: true round_mode: FLOOR ceil_mode: true } }
layer { name: "interp" type: "Interp" bottom: "c" top: "d" interp_param { height: 8 width: 8 } }
layer { name: "pad" type: "Padding" bottom: "d" top: "e" padding_param { pad_l: 1 } }
layer { name: "norm" type: "BatchNorm" bottom: "e" top: "f"
        batch_norm_param { use_global_stats: false engine: MKLDNN } }
"""
WRITTEN = {
    "BNParameter bn_param": 162, "ClipParameter clip_param": 165, "InterpParameter interp_param": 161,
    "PaddingParameter padding_param": 166, "BnMode bn_mode": 7, "FillerParameter scale_filler": 8,
    "bool yolo": 99, "bool ceil_mode": 18, "RoundMode round_mode": 19, "Engine engine": 4,
}  # fmt: skip


def test_files_have_the_forks_numbers(tmp_path: Path) -> None:
    (tmp_path / "given.prototxt").write_text(TEXT)
    net = anylayer.read(tmp_path / "given.prototxt", dialect="sophgo").fill()
    done = net.write(tmp_path / "net.prototxt")
    assert all(check.ok for check in done.checks)
    proto = (tmp_path / "net.proto").read_text()
    for declaration, number in WRITTEN.items():
        assert re.search(rf"{declaration} = {number}\b", proto), declaration
    back = anylayer.read(tmp_path / "net.prototxt", tmp_path / "net.caffemodel", dialect="sophgo")
    assert [n.params for n in back.network.nodes] == [n.params for n in net.network.nodes]


def test_fields_without_effect_are_left_out_for_other_dialects(tmp_path: Path) -> None:
    """BVLC's Caffe would not parse them."""
    (tmp_path / "given.prototxt").write_text(
        TEXT.splitlines()[1]
        + "layer { name: 'r' type: 'ReLU' bottom: 'x' top: 'y' relu_param { fuse: true engine: MKLDNN } }"
        + "layer { name: 'e' type: 'Eltwise' bottom: 'x' bottom: 'y' top: 'z' eltwise_param { engine: CAFFE } }"
    )
    net = anylayer.read(tmp_path / "given.prototxt", dialect="sophgo")
    for dialect, texts in {"bvlc": (), "sophgo": ("fuse: true", "engine: MKLDNN", "engine: CAFFE")}.items():
        net.write(tmp_path / "net.prototxt", dialect=dialect)
        text = (tmp_path / "net.prototxt").read_text()
        assert [word for word in ("fuse", "engine") if word in text] == (["fuse", "engine"] if texts else [])
        assert all(each in text for each in texts)


X = noise(1, 2, 7, 6)


@pytest.mark.parametrize("include", [False, True])
@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 1, 1, 1], [0, 1, 1, 0]])
def test_average_pooling(tmp_path: Path, include: bool, pads: list[int]) -> None:
    """Its Caffe divides every window by the size of the kernel."""
    check(
        tmp_path,
        lambda x: ops.average_pool(x, (3, 2), strides=(2, 2), pads=pads, count_include_pad=include),
        X,
        dialect="sophgo",
    )


def test_lstm_marks_the_start_by_a_continuation_indicator(tmp_path: Path) -> None:
    """A DummyData layer is an input in this Caffe."""
    w, r, b = noise(1, 12, 4), noise(1, 12, 3, seed=1), noise(1, 24, seed=2)
    types = check(tmp_path, lambda x: ops.lstm(x, w, r, b, hidden_size=3)[0], noise(5, 2, 4), dialect="sophgo")
    assert "ContinuationIndicator" in types and "DummyData" not in types


@pytest.mark.one_per(lambda case: case.parent.name)
@needs_data("golden_sophgo")
@pytest.mark.parametrize("case", COMPUTED, ids=key)
def test_round_trip_of_golden_networks(case: Path, tmp_path: Path) -> None:
    weights = case / "weights.caffemodel"
    net = anylayer.read(case / "deploy.prototxt", weights if weights.exists() else None, dialect="sophgo")
    proto, caffemodel, text = rewritten(net.network, tmp_path)
    assert_equal(net.network, anylayer.read(text, caffemodel, dialect="sophgo").network)
    back = anylayer.read(text, caffemodel, dialect="sophgo", proto=proto)
    inputs = {name: np.load(case / f"input_{name}.npy") for name in net.inputs}
    want = net.compile("numpy")(inputs)
    for name, y in back.compile("numpy")(inputs).items():
        assert_same(y, want[name], name)
