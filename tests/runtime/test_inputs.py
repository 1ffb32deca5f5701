"""The inputs that a compiled model requires, and the sizes that they may have."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import anylayer
from anylayer.errors import InputError, LayerError
from tests.engine_names import ALL

ENGINES = [*ALL, "auto"]
TWO = """
layer { name: "a" type: "Input" top: "a" input_param { shape { dim: 1 dim: 3 } } }
layer { name: "b" type: "Input" top: "b" }
layer { name: "left" type: "Power" bottom: "a" top: "left" power_param { scale: 2 } }
layer { name: "right" type: "Power" bottom: "b" top: "right" power_param { scale: 3 } }
layer { name: "sum" type: "Eltwise" bottom: "left" bottom: "right" top: "sum" }
"""
A, B = np.arange(3, dtype=np.float32).reshape(1, 3), np.ones((1, 3), np.float32)


def read(tmp_path: Path, text: str) -> Any:
    (tmp_path / "net.prototxt").write_text(text)
    return anylayer.read(tmp_path / "net.prototxt")


@pytest.mark.parametrize("engine", ENGINES)
def test_only_inputs_that_the_outputs_depend_on_are_required(tmp_path: Path, engine: str) -> None:
    model = read(tmp_path, TWO).compile(engine, outputs=["left"])  # b's shape is nowhere
    assert list(model.inputs) == ["a"]
    for given in (A, {"a": A}, {"a": A, "b": B}):
        assert np.array_equal(model(given)["left"], A * 2)
    other = read(tmp_path, TWO).compile(engine, outputs=["right"])
    assert np.array_equal(other({"b": B})["right"], B * 3)
    assert np.array_equal(other({"b": B, "a": A})["right"], B * 3)


def test_unknown_input_name_is_refused(tmp_path: Path) -> None:
    model = read(tmp_path, TWO).compile("numpy", outputs=["left"])
    with pytest.raises(InputError, match=re.escape("the network has no input 'c'; its inputs: a, b")):
        model({"a": A, "c": B})
    with pytest.raises(InputError, match="input 'a' is missing; the network's inputs: a"):
        model({"b": B})


def test_all_outputs_require_all_inputs(tmp_path: Path) -> None:
    model = read(tmp_path, TWO).compile("numpy")
    assert list(model.inputs) == ["a", "b"]
    assert np.array_equal(model({"a": A, "b": B})["sum"], A * 2 + 3)


LAYERS = [
    ('type: "ReLU"', (0, 3, 8, 8), (0, 3, 8, 8)),
    ('type: "ReLU"', (1, 3, 0, 8), (1, 3, 0, 8)),
    ('type: "Convolution" convolution_param { num_output: 2 kernel_size: 3 }', (0, 3, 8, 8), (0, 2, 6, 6)),
    ('type: "Pooling" pooling_param { kernel_size: 2 stride: 2 }', (0, 3, 8, 8), (0, 3, 4, 4)),
    ('type: "Softmax"', (2, 3, 8, 0), (2, 3, 8, 0)),
    ('type: "Reduction" reduction_param { axis: 1 }', (2, 0, 8, 8), (2,)),
    ('type: "InnerProduct" inner_product_param { num_output: 2 }', (0, 3, 8, 8), (0, 2)),
]


@pytest.mark.one_per("layer")
@pytest.mark.parametrize("stated", ["in the call", "in shapes", "in the file"])
@pytest.mark.parametrize(("layer", "shape", "output"), LAYERS)
def test_input_may_have_no_elements(tmp_path: Path, layer: str, shape: Any, output: Any, stated: str) -> None:
    dims = " ".join(f"dim: {d}" for d in (shape if stated == "in the file" else (1, 3, 8, 8)))
    net = read(
        tmp_path,
        f'layer {{ name: "d" type: "Input" top: "d" input_param {{ shape {{ {dims} }} }} }}\n'
        f'layer {{ name: "y" bottom: "d" top: "y" {layer} }}',
    )
    if "num_output" in layer:
        net.fill(shapes={"d": (1, 3, 8, 8)})
    for engine in ENGINES:
        model = net.compile(engine, shapes={"d": shape} if stated == "in shapes" else None)
        got = model({"d": np.zeros(shape, np.float32)})["y"]
        assert (got.shape, got.dtype) == (output, np.float32)


def test_positional_second_array_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "n.prototxt"
    path.write_text(
        'input: "data" input_shape { dim: 1 dim: 2 } layer { name: "r" type: "ReLU" bottom: "data" top: "r" }'
    )
    net = anylayer.read(path)
    x = np.zeros((1, 2), np.float32)
    with pytest.raises(InputError, match="out must be a dict of arrays, got ndarray"):
        net.compile("numpy")(x, x)
    with pytest.raises(InputError, match=r"shapes must be a dict such as .*, got \(1, 2\)"):
        net.compile("numpy", shapes=(1, 2))


def test_message_says_how_to_give_an_open_batch_size_that_another_input_fixes(tmp_path: Path) -> None:
    x, w, y = (helper.make_tensor_value_info(*of) for of in (("x", 1, ("N", 3)), ("w", 1, (2, 3)), ("y", 1, None)))
    graph = helper.make_graph([helper.make_node("Concat", ["x", "w"], ["y"], axis=1)], "net", [x, w], [y])
    onnx.save(helper.make_model(graph, ir_version=9), tmp_path / "net.onnx")
    read = anylayer.read(tmp_path / "net.onnx")
    advice = (
        "The file leaves the batch size of input 'x' open, so it is 1 here; give another: shapes={'x': (2, 3)}"
    )
    with pytest.raises(LayerError, match=re.escape(advice)):
        read.compile("onnxruntime")
    two = np.ones((2, 3), np.float32)
    assert read.compile("onnxruntime", shapes={"x": (2, 3)})({"x": two, "w": two})["y"].shape == (2, 6)


def test_input_that_no_node_reads_may_be_left_out(tmp_path: Path) -> None:
    """Such an input remains an input of the network and of the files that are written for it."""
    x, unread = (helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, [1, 3]) for n in ("x", "unread"))
    y = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 3])
    graph = helper.make_graph([helper.make_node("Relu", ["x"], ["y"])], "g", [x, unread], [y])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "net.onnx")
    net = anylayer.read(tmp_path / "net.onnx")
    for engine in ALL:
        model = net.compile(engine)
        assert list(model.inputs) == ["x", "unread"]
        for given in ({"x": A - 1}, {"x": A - 1, "unread": A}):
            assert np.array_equal(model(given)["y"], np.maximum(A - 1, 0))
        with pytest.raises(InputError, match="input 'x' is missing"):
            model({"unread": A})
    assert [check.ok for check in net.write(tmp_path / "net.xml", verify={"x": A}).checks] == [True]


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_arrays_without_axes_are_inputs_of_a_verification(tmp_path: Path, suffix: str) -> None:
    number = np.array(2, np.float32)
    anylayer.export(lambda x, s: x * s, A, number, path=tmp_path / "given.onnx")
    net = anylayer.read(tmp_path / "given.onnx")
    done = net.write(tmp_path / f"net.{suffix}", verify={"x": A, "s": number})
    assert [check.ok for check in done.checks] == [True]
