"""Files for Ascend follow the definitions in its documentation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import anylayer
from anylayer.errors import LayerError
from tests.layers.harness import noise

X = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 21 dim: 4 dim: 4 } } }\n'
YOLO = (
    'layer { name: "y" type: "Yolo" bottom: "x" top: "a" top: "b" top: "c" '
    'yolo_param { boxes: 3 coords: 4 classes: 2 yolo_version: "V3" %s } }'
)


def network(folder: Path, text: str, **options: str) -> anylayer.Net:
    (folder / "given.prototxt").write_text(X + text)
    return anylayer.read(folder / "given.prototxt", **options)


def proto(folder: Path) -> str:
    return (folder / "net.proto").read_text()


@pytest.mark.parametrize("more", ["", "padded: true"])
def test_unwritten_field_is_in_no_file(tmp_path: Path, more: str) -> None:
    """The layer pads its outputs to the length of Ascend's buffers; no field of Ascend says so."""
    done = network(tmp_path, YOLO % more, dialect="ascend").write(tmp_path / "net.prototxt")
    assert all(check.ok for check in done.checks)
    for name in ("net.prototxt", "net.proto"):
        assert "padded" not in (tmp_path / name).read_text()


@pytest.mark.parametrize(("more", "read"), [("padded: false", "ascend"), ("", None)])
def test_other_value_of_unwritten_field_is_refused(tmp_path: Path, more: str, read: str | None) -> None:
    net = network(tmp_path, YOLO % more, **({"dialect": read} if read else {}))
    rule = r"layer 'y' \(Yolo\): padded is False here, but always True in dialect 'ascend', .*\(dialect='ascend'\)"
    with pytest.raises(LayerError, match=rule):
        net.write(tmp_path / "net.prototxt", dialect="ascend")


ROIS = """
layer { name: "r" type: "Input" top: "r" input_param { shape { dim: 1 dim: 5 } } }
layer { name: "y" type: "ROIAlign" bottom: "x" bottom: "r" top: "y" roi_align_param { pooled_h: 2 pooled_w: 2 } }
"""


def test_default_sampling_ratio_is_that_of_documentation(tmp_path: Path) -> None:
    """Ascend's caffe.proto states the default -1, but its plugin uses 2 x 2 samples, also with that schema."""
    given = {"x": noise(1, 21, 4, 4), "r": np.array([[0, 0, 0, 5, 5]], np.float32)}
    net = network(tmp_path, ROIS, dialect="ascend")
    net.write(tmp_path / "net.prototxt", verify=given)
    assert "optional int32 sampling_ratio = 4 [default = -1];" in proto(tmp_path)
    again = anylayer.read(tmp_path / "net.prototxt", dialect="ascend", proto=tmp_path / "net.proto")
    assert np.array_equal(again.compile("numpy")(given)["y"], net.compile("numpy")(given)["y"])
    text = ROIS.replace("pooled_w: 2", "pooled_w: 2 sampling_ratio: -1")
    other = network(tmp_path, text, dialect="ascend").compile("numpy")(given)["y"]
    assert not np.array_equal(other, net.compile("numpy")(given)["y"])


PRIORS = """
layer { name: "p" type: "PriorBox" bottom: "x" bottom: "x" top: "p"
  prior_box_param { min_size: 2 variance: [0.1, 0.1, 0.2, 0.2] } }
"""
DETECTIONS = """
layer { name: "l" type: "Input" top: "l" input_param { shape { dim: 1 dim: 8 } } }
layer { name: "c" type: "Input" top: "c" input_param { shape { dim: 1 dim: 4 } } }
layer { name: "q" type: "Input" top: "q" input_param { shape { dim: 1 dim: 2 dim: 8 } } }
layer { name: "d" type: "DetectionOutput" bottom: "l" bottom: "c" bottom: "q" top: "d"
  detection_output_param { num_classes: 2 code_type: CENTER_SIZE } }
"""
CODES = "enum CodeType { CORNER = 1; CENTER_SIZE = 2; CORNER_SIZE = 3; }"


@pytest.mark.parametrize("text", [PRIORS, DETECTIONS, PRIORS + DETECTIONS])
def test_code_type_enum_is_declared_like_ssd(tmp_path: Path, text: str) -> None:
    network(tmp_path, text, dialect="ssd").write(tmp_path / "net.prototxt", verify=text is not DETECTIONS)
    (message,) = re.findall(r"message PriorBoxParameter \{(.*?)\n?\}", proto(tmp_path), re.S | re.M)[:1]
    assert CODES.removesuffix(" }") in message + " }"
    assert proto(tmp_path).count("enum CodeType") == 1
    if text is not PRIORS:
        assert "optional PriorBoxParameter.CodeType code_type = 6 [default = CORNER];" in proto(tmp_path)


@pytest.mark.parametrize("shared", ["true", "false"])
def test_scale_of_normalize_is_always_a_blob(tmp_path: Path, shared: str) -> None:
    text = (
        'layer { name: "n" type: "Normalize" bottom: "x" top: "y" norm_param { across_spatial: false '
        f'scale_filler {{ type: "constant" value: 20 }} channel_shared: {shared} }} }}'
    )
    network(tmp_path, text, dialect="ascend").write(tmp_path / "net.prototxt")
    (node,) = anylayer.read(tmp_path / "net.caffemodel", dialect="ascend").network.nodes
    assert [(set(b.reshape(-1)), b.size) for b in node.blobs] == [({20.0}, 1 if shared == "true" else 21)]
