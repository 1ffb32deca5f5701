"""The command `diff`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import anylayer

from .conftest import Run

DATA = Path(__file__).parent.parent / "data" / "diff"
FILES = str(DATA / "net.onnx"), str(DATA / "net.onnx2tf.pb")
NET = """input: "x" input_shape {{ dim: 1 dim: 3 dim: 8 dim: 8 }}
layer {{ name: "conv" type: "Convolution" bottom: "x" top: "conv"
  convolution_param {{ num_output: 4 kernel_size: 3 }} }}
layer {{ name: "relu" type: "ReLU" bottom: "conv" top: "relu" relu_param {{ negative_slope: {slope} }} }}
layer {{ name: "out" type: "Power" bottom: "relu" top: "out" power_param {{ scale: 2 }} }}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the current folder: a Caffe network, and one whose ReLU has another slope, converted to ONNX."""
    monkeypatch.chdir(tmp_path)
    for name, slope in (("a", 0), ("b", 0.1)):
        Path(f"{name}.prototxt").write_text(NET.format(slope=slope))
    net = anylayer.read("a.prototxt").fill()
    net.write("a.onnx")
    net.write("same.prototxt", format="caffe")
    other = anylayer.read("b.prototxt", "same.caffemodel")
    other.write("b.onnx")
    return tmp_path


def test_equal_networks_end_with_status_0(folder: Path, anylayer_command: Run) -> None:
    shown = anylayer_command("diff", "a.prototxt", "same.caffemodel", "a.onnx").stdout
    assert shown.endswith("same: they compute the same\n")
    assert "nodes: 3 agree" in shown
    reverse = anylayer_command("diff", "a.onnx", "a.prototxt", "same.caffemodel").stdout
    assert reverse.endswith("same: they compute the same\n")


def test_first_difference_is_shown_with_status_1(folder: Path, anylayer_command: Run) -> None:
    shown = anylayer_command("diff", "a.prototxt", "same.caffemodel", "b.onnx", status=1).stdout
    assert "first difference: relu (ReLU) | relu (LeakyRelu)" in shown
    assert "operators: Relu | LeakyRelu" in shown
    assert "\ndifferent: they part at relu | relu; the outputs differ\n" in shown
    assert "conv" not in shown.partition("first difference")[2]
    everything = anylayer_command("diff", "a.prototxt", "same.caffemodel", "b.onnx", "--all", status=1).stdout
    assert "conv" in everything


def test_weights_belong_to_the_network_before_them(folder: Path, anylayer_command: Run) -> None:
    words = "a.prototxt", "same.caffemodel", "b.prototxt", "same.caffemodel"
    shown = anylayer_command("diff", *words, status=1).stdout
    assert "first difference: relu (ReLU)\n" in shown
    assert "operators: Relu | LeakyRelu" in shown
    three = "a.prototxt", "same.caffemodel", "b.prototxt", "same.caffemodel", "a.onnx"
    assert "give two networks" in anylayer_command("diff", *three, status=2).stderr


def test_json_has_rows_and_outputs(anylayer_command: Run) -> None:
    found = json.loads(anylayer_command("diff", *FILES, "--json").stdout)
    assert found["same"] and found["inputs"] == {"x": "x"}
    assert [(o["a"], o["b"], o["ok"]) for o in found["outputs"]] == [("scores", "Identity", True)]
    assert {row["status"] for row in found["rows"]} == {"same", "folded", "moved"}


def test_picture_is_prepared_for_the_first_network(anylayer_command: Run, tmp_path: Path) -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 255, (20, 30, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    words = *FILES, "-i", str(tmp_path / "a.png"), "--scale", "1/255"
    assert "same: they compute the same" in anylayer_command("diff", *words).stdout


def test_page_is_written(anylayer_command: Run, tmp_path: Path) -> None:
    done = anylayer_command("diff", *FILES, "-o", str(tmp_path / "d.html"))
    assert "wrote" in done.stderr
    page = (tmp_path / "d.html").read_text()
    assert "{{" not in page and "net.onnx and net.onnx2tf.pb" in page


def test_map_needs_two_names(anylayer_command: Run) -> None:
    assert "--map takes NAME=NAME" in anylayer_command("diff", *FILES, "--map", "x", status=2).stderr
