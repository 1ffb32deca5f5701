"""Outputs keep their names in the files of every writer and on every engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import helper

import anylayer
from anylayer.api import Net
from anylayer.writers import writers
from tests.engine_names import ALL
from tests.readers.onnx.files import model, value

X = 'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 dim: 6 dim: 6 } } }\n'
IMAGE = X.replace('"x"', '"image"').replace("dim: 4", "dim: 3")
CONV = """
layer { name: "c" type: "Convolution" bottom: "x" top: "c" convolution_param { num_output: 4 kernel_size: 3 } }
"""
SHUFFLE = """
layer {{ name: "n" type: "ShuffleChannel" bottom: "{0}" top: "{1}" shuffle_channel_param {{ group: 2 }} }}
"""
PRIORS = """
layer { name: "p" type: "PriorBox" bottom: "%s" bottom: "%s" top: "p"
  prior_box_param { min_size: 2 variance: 0.1 variance: 0.1 variance: 0.2 variance: 0.2 } }
"""
SLICE = """
layer { name: "s" type: "Slice" bottom: "x" top: "a" top: "b" top: "c"
  slice_param { slice_point: 1 slice_point: 3 } }
"""
SILENCE = 'layer { name: "q" type: "Silence" bottom: "%s" }\n'
RELU = 'layer {{ name: "{0}" type: "ReLU" bottom: "{1}" top: "{2}" }}\n'

CAFFE = {
    "several layers for the last layer": X + SHUFFLE.format("x", "y"),
    "in place, several layers": X + CONV + SHUFFLE.format("c", "c"),
    "in place": X + CONV + RELU.format("r", "c", "c"),
    "an input in place": X + RELU.format("r", "x", "x"),
    "an input in place, several layers": X + SHUFFLE.format("x", "x"),
    "constant boxes": X + CONV + PRIORS % ("c", "x"),
    "constant boxes of a map that is an output": X + CONV + PRIORS % ("c", "x") + RELU.format("r", "c", "f"),
    "constant boxes of an input without other consumers": X + IMAGE + CONV + PRIORS % ("c", "image"),
    "the middle of a slice": X + SLICE + SILENCE % "a" + SILENCE % "c",
    "a part of a slice whose other part has a consumer": X + SLICE + SILENCE % "c" + RELU.format("r", "a", "e"),
    "all parts of a slice": X + SLICE,
    "a name with other characters": X + RELU.format("r", "x", "a b/c:0,d"),
    "the name of another layer": X + RELU.format("y", "x", "a") + RELU.format("z", "a", "y"),
    "the name of a convolution's top": X + CONV.replace('"c" type', '"d" type') + RELU.format("c", "c", "y"),
    "an input without consumers": X + IMAGE + SILENCE % "image" + RELU.format("r", "x", "y"),
    "two branches": X + CONV + RELU.format("r", "c", "y") + SHUFFLE.format("c", "z"),
}
INPUT_NAMED_ALIKE = ("an input in place", "an input in place, several layers")


def caffe(folder: Path, name: str) -> Net:
    (folder / "given.prototxt").write_text(CAFFE[name])
    return anylayer.read(folder / "given.prototxt", dialect="ssd").fill()


def onnx(folder: Path, name: str) -> Net:
    x, k = value("x", [1, 4, 6, 6]), np.ones((1, 4, 6, 6), np.float32)
    node = helper.make_node
    nodes, outputs = {
        "one value as two outputs": ([node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"])], ["y", "z"]),
        "an input as an output": ([node("Identity", ["x"], ["y"])], ["y"]),
        "one operator twice": ([node("Relu", ["x"], ["y"]), node("Relu", ["x"], ["z"])], ["y", "z"]),
        "names that are changed round": (
            [node("Relu", ["x"], ["b"]), node("Sigmoid", ["b"], ["a"]), node("Tanh", ["a"], ["t"])],
            ["a", "b", "t"],
        ),
        "a constant": ([node("Relu", ["x"], ["y"]), node("Identity", ["k"], ["z"])], ["y", "z"]),
        "a value that is read": ([node("Relu", ["x"], ["y"]), node("Add", ["y", "k"], ["z"])], ["y", "z"]),
    }[name]
    (folder / "given.onnx").write_bytes(model(nodes, [x], outputs, {"k": k}).SerializeToString())
    return anylayer.read(folder / "given.onnx")


ONNX = (
    *("one value as two outputs", "an input as an output", "one operator twice", "names that are changed round"),
    *("a constant", "a value that is read"),
)
TARGETS = [(writer, None) for writer in sorted(writers())] + [("caffe", d) for d in ("bvlc", "ssd", "opencv")]
NETWORKS = [(caffe, name) for name in CAFFE] + [(onnx, name) for name in ONNX]


@pytest.mark.one_per("writer", "dialect")
@pytest.mark.parametrize(("writer", "dialect"), TARGETS, ids=lambda v: v or "its own")
@pytest.mark.parametrize(("source", "name"), NETWORKS, ids=lambda v: v if isinstance(v, str) else "")
def test_written_file_keeps_output_names(
    tmp_path: Path, source: object, name: str, writer: str, dialect: str | None
) -> None:
    net = source(tmp_path, name)
    if dialect == "opencv" and name == "a constant":
        with pytest.raises(anylayer.AnyLayerError, match="has no layer that gives a constant"):
            net.write(tmp_path / "out.prototxt", dialect=dialect)
        return
    done = net.write(tmp_path / f"out{next(iter(writers()[writer].SUFFIXES), '')}", writer, dialect=dialect)
    *others, path = done.files
    read = {"weights": others[-1], "dialect": dialect or net.network.dialect} if writer == "caffe" else {}
    again = anylayer.read(path, **read)
    assert sorted(again.inputs) == sorted(net.inputs)
    if name in INPUT_NAMED_ALIKE and list(again.outputs) != ["x"]:
        assert list(again.outputs) == ["x_out"]
        assert "output 'x' is called 'x_out' in the file, because an input has its name" in done.notes
    else:
        assert sorted(again.outputs) == sorted(net.outputs)


@pytest.mark.one_per("engine")
@pytest.mark.parametrize("engine", [*ALL, "auto"])
@pytest.mark.parametrize(("source", "name"), NETWORKS, ids=lambda v: v if isinstance(v, str) else "")
def test_model_keeps_output_names(tmp_path: Path, source: object, name: str, engine: str) -> None:
    net = source(tmp_path, name)
    compiled = net.compile(engine, threads=1)
    given = {name: np.ones(kind.shape, np.float32) for name, kind in net.inputs.items() if kind is not None}
    assert list(compiled(given)) == list(net.outputs)
    assert list(compiled.outputs) == list(net.outputs)
