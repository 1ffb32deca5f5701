"""Outputs that tell little: empty, constant, saturated or tiny."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.convert.checks import tells_enough
from anylayer.engines import onnxruntime
from anylayer.errors import ConversionError
from anylayer.source import Source, Written
from anylayer.writers import load_writer
from anylayer.writers.onnx import write as write_onnx

CLASSIFIER = """
input: "data" input_shape { dim: 1 dim: 12 }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc" inner_product_param { num_output: 150 } }
layer { name: "prob" type: "%s" bottom: "fc" top: "prob" }
"""
DETECTOR = """
input: "data" input_shape { dim: 1 dim: 4 dim: 4 dim: 4 }
layer { name: "loc" type: "Convolution" bottom: "data" top: "loc"
  convolution_param { num_output: 4 kernel_size: 1 } }
layer { name: "flat" type: "Flatten" bottom: "loc" top: "flat" }
layer { name: "score" type: "Convolution" bottom: "data" top: "score"
  convolution_param { num_output: 3 kernel_size: 1 } }
layer { name: "conf" type: "Flatten" bottom: "score" top: "conf" }
layer { name: "sigmoid" type: "Sigmoid" bottom: "conf" top: "sigmoid" }
layer { name: "priors" type: "PriorBox" bottom: "loc" bottom: "data" top: "priors"
  prior_box_param { min_size: 1 } }
layer { name: "found" type: "DetectionOutput" bottom: "flat" bottom: "sigmoid" bottom: "priors" top: "found"
  detection_output_param { num_classes: 3 confidence_threshold: 0.8 nms_param { nms_threshold: 0.5 } } }
"""


def read(folder: Path, text: str, scale: float = 100, shift: float = 0) -> anylayer.Net:
    """Return the network with random weights, and biases around `shift`."""
    (folder / "n.prototxt").write_text(text)
    net = anylayer.read(folder / "n.prototxt")
    random = np.random.default_rng(0)
    for node in net.network.nodes:
        if node.type == "InnerProduct":
            node.blobs = [random.standard_normal((150, 12)) * scale, np.full(150, shift)]
        if node.type == "Convolution":
            count = node.params["convolution_param"]["num_output"]
            node.blobs = [random.standard_normal((count, 4, 1, 1)) * 0.1, np.full(count, shift)]
        node.blobs = [b.astype(np.float32) for b in node.blobs]
    return net


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[Any], None]], None]:
    """A function that replaces the ONNX writer by one which changes the operators of the graph before."""
    real = load_writer("onnx")

    def use(change: Callable[[Any], None]) -> None:
        def write(source: Source, path: Path, **options: Any) -> Written:
            for o in source.graph.ops:
                change(o)
            return write_onnx(source, path, **options)

        module = SimpleNamespace(**{**vars(real), "write": write})
        monkeypatch.setattr("anylayer.writers.load_writer", lambda name: module)

    return use


@pytest.mark.parametrize(
    ("values", "tells"),
    [
        (np.zeros((0, 7)), False),
        (np.full(200, 3.0), False),
        (np.eye(1, 200), False),  # a saturated softmax
        (np.array([0, -1, -1, -1, -1, -1, -1]), False),  # SSD's row for no detection
        (np.concatenate([np.zeros(693), np.arange(7)]), False),
        (np.array([1.0]), False),
        (np.array([0.3, 0.7]), True),
        (np.array([417]), True),
        (np.linspace(0, 1, 20), True),
        (np.array([np.nan, np.inf, 1.0]), False),
        (np.concatenate([np.zeros(985), np.ones(8), np.full(7, 2.0)]), True),
        (np.concatenate([np.zeros(985), np.ones(8), np.full(7, 2.0)])[:996], True),
        (np.concatenate([np.zeros(993), np.ones(4), np.full(3, 2.0)]), False),
    ],
)
def test_what_tells_enough(values: Any, tells: bool) -> None:
    assert tells_enough(values, 1e-5) is tells


@pytest.mark.parametrize("suffix", [".onnx", ".xml", ".prototxt"])
def test_values_before_a_saturated_softmax_are_compared(tmp_path: Path, suffix: str) -> None:
    done = read(tmp_path, CLASSIFIER % "Softmax").write(tmp_path / f"out{suffix}")
    assert [(c.name, c.part, c.of, c.ok, c.tells) for c in done.checks] == [
        ("prob", "", "", True, False),
        ("fc", "before", "prob", True, True),
        ("prob", "alone", "prob", True, True),
    ]
    assert done.checks[1].scale > 100
    assert any("'fc' before it was compared, and the layers after that alone, on noise" in n for n in done.notes)


def test_noise_for_last_layers_is_as_small_as_they_need_it(tmp_path: Path) -> None:
    """Of normal noise, too, the softmax would be saturated. Its last layers begin after the values of `fc`."""
    text = (
        (CLASSIFIER % "Sigmoid").replace("prob", "s")
        + """
    layer { name: "q" type: "Power" bottom: "s" top: "q" power_param { scale: 1000 } }
    layer { name: "prob" type: "Softmax" bottom: "q" top: "prob" }
    """
    )
    done = read(tmp_path, text, scale=1e4).write(tmp_path / "out.onnx")
    assert [(c.name, c.part, c.tells) for c in done.checks] == [
        ("prob", "", False),
        ("fc", "before", True),
        ("prob", "alone", True),
    ]


def test_wrong_weights_before_a_saturated_softmax_are_refused(tmp_path: Path, faulty: Any) -> None:
    def change(o: Any) -> None:
        for value in o.inputs:
            if value is not None and value.const is not None and value.const.size == 150 * 12:
                value.const = value.const * np.float32(1.01)

    faulty(change)
    with pytest.raises(ConversionError, match="'fc' before output 'prob' differs from the source"):
        read(tmp_path, CLASSIFIER % "Softmax").write(tmp_path / "out.onnx")


def test_wrong_last_layer_after_saturated_values_is_refused(tmp_path: Path, faulty: Any) -> None:
    """Hardmax gives what a saturated softmax gives."""

    def change(o: Any) -> None:
        o.op = "Hardmax" if o.op == "Softmax" else o.op

    faulty(change)
    with pytest.raises(
        ConversionError, match="'prob' of its last layers alone, on noise, differs from the source"
    ):
        read(tmp_path, CLASSIFIER % "Softmax").write(tmp_path / "out.onnx")


@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
def test_detector_that_finds_nothing_is_compared_in_parts(tmp_path: Path, suffix: str) -> None:
    done = read(tmp_path, DETECTOR, shift=-3).write(tmp_path / f"out{suffix}")
    assert [(c.name, c.part, c.tells) for c in done.checks] == [
        ("found", "", False),
        ("flat", "before", True),
        ("sigmoid", "before", True),
        ("found", "alone", True),
    ]
    assert done.checks[-1].scale >= 1 and all(c.ok for c in done.checks)


@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
def test_detector_of_single_operators_is_cut_before_its_selection(tmp_path: Path, suffix: str) -> None:
    """The limits of NMS stay constants in the file of the last layers."""
    read(tmp_path, DETECTOR, shift=-3).write(tmp_path / "n.onnx", verify=False)
    done = anylayer.read(tmp_path / "n.onnx").write(tmp_path / f"out{suffix}")
    assert {(c.part, c.tells) for c in done.checks} == {("", False), ("before", True), ("alone", True)}
    assert "found" in [c.name for c in done.checks if c.part == "alone"]


def test_generated_code_is_tested_on_noise_that_tells_enough(tmp_path: Path) -> None:
    """With normal noise the softmax is saturated. A network without weights is constant for any noise."""
    done = read(tmp_path, CLASSIFIER % "Softmax").generate("pytorch", tmp_path / "saturated", test=False)
    (sample,) = [np.load(file) for file in done.files if file.suffix == ".npz"][:1]
    assert done.notes == [] and all(np.abs(x).max() < 1 for x in sample.values())
    net = read(tmp_path, CLASSIFIER % "ReLU", scale=0, shift=-100)
    (note,) = net.generate("pytorch", tmp_path / "constant", test=False).notes
    assert note.startswith("output 'prob' is empty, constant, saturated or tiny for these inputs, so nothing was")
    assert note.endswith("inputs={...}")


def test_nothing_was_compared_is_said(tmp_path: Path) -> None:
    done = read(tmp_path, CLASSIFIER % "ReLU", scale=0, shift=-100).write(tmp_path / "out.onnx")
    (note,) = done.notes
    assert "output 'prob' is empty, constant, saturated or tiny for these inputs, so nothing was compared" in note
    assert "data of the kind that the network was trained for" in note


@pytest.mark.parametrize(("error", "accepted"), [(9e-8, True), (1e-5, False)])
def test_tiny_outputs_of_a_sigmoid_have_a_floor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float, accepted: bool
) -> None:
    original = onnxruntime.open_file

    def inexact(*given: Any) -> Any:
        run = original(*given)
        return lambda feed: {n: x + np.float32(error * (n == "prob")) for n, x in run(feed).items()}

    monkeypatch.setattr(onnxruntime, "open_file", inexact)
    net = read(tmp_path, CLASSIFIER % "Sigmoid", scale=0.1, shift=-16)
    if accepted:
        first, before, alone = net.write(tmp_path / "out.onnx").checks
        assert first.rule == "floor" and first.scale < 1e-5
        assert (before.name, before.part, before.tells, alone.part) == ("fc", "before", True, "alone")
    else:
        with pytest.raises(
            ConversionError, match=r"output 'prob' differs from the source.* network was trained for"
        ):
            net.write(tmp_path / "out.onnx")
