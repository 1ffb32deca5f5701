"""Net.before and Net.after put NumPy functions into a network, which every engine and file then holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import anylayer
from anylayer.errors import InputError, LayerError, TraceError
from anylayer.testing import assert_same
from tests.engine_names import ALL

NET = """
name: "net" input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "pool" type: "Pooling" bottom: "data" top: "pool" pooling_param { pool: AVE global_pooling: true } }
layer { name: "prob" type: "Softmax" bottom: "pool" top: "prob" }
"""
TWO = """
name: "two" input: "a" input_shape { dim: 1 dim: 3 } input: "b" input_shape { dim: 1 dim: 3 }
layer { name: "sum" type: "Eltwise" bottom: "a" bottom: "b" top: "sum" }
layer { name: "abs" type: "AbsVal" bottom: "b" top: "abs" }
"""
MEAN = np.array([104, 117, 123], np.float32)
IMAGE = np.random.default_rng(0).integers(0, 256, (1, 8, 8, 3)).astype(np.uint8)


def picture(image: Any) -> Any:
    return (image[..., ::-1].astype(np.float32) - MEAN).transpose(0, 3, 1, 2) / np.float32(255)


def best(prob: Any) -> Any:
    scores = prob.reshape(prob.shape[0], -1)
    return {"label": scores.argmax(axis=1), "score": scores.max(axis=1)}


@pytest.fixture
def read(tmp_path: Path) -> Callable[[str], anylayer.Net]:
    def read(text: str) -> anylayer.Net:
        (tmp_path / "net.prototxt").write_text(text)
        return anylayer.read(tmp_path / "net.prototxt")

    return read


@pytest.mark.parametrize("engine", [*ALL, "auto"])
def test_functions_run_in_the_engine(read: Any, engine: str) -> None:
    net = read(NET)
    whole = net.before(picture, (IMAGE.shape, np.uint8)).after(best)
    model = whole.compile(engine)
    found, want = model(IMAGE), best(net.compile("numpy")(picture(IMAGE))["prob"])
    assert not model.host_calls
    assert list(found) == ["label", "score"]
    for name, array in want.items():
        assert_same(found[name], array, name)


@pytest.mark.parametrize("engine", ALL)
def test_labels_keep_their_integer_dtype_in_a_caffe_network(read: Any, engine: str) -> None:
    assert read(NET).after(best).compile(engine)(np.ones((1, 3, 8, 8), np.float32))["label"].dtype == np.int64


def test_an_onnx_file_holds_both_functions(read: Any, tmp_path: Path) -> None:
    whole = read(NET).before(picture, IMAGE).after(best)
    done = whole.write(tmp_path / "whole.onnx", verify={"image": IMAGE})
    assert all(check.ok for check in done.checks)
    session = onnxruntime.InferenceSession(str(tmp_path / "whole.onnx"))
    assert [(i.name, i.type, i.shape) for i in session.get_inputs()] == [("image", "tensor(uint8)", [1, 8, 8, 3])]
    label, score = session.run(["label", "score"], {"image": IMAGE})
    want = whole.compile("numpy")(IMAGE)
    assert (label == want["label"]).all()
    assert_same(score, want["score"])


def test_an_ir_holds_both_functions(read: Any, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    done = read(NET).before(picture, IMAGE).after(best).write(tmp_path / "whole.xml", verify={"image": IMAGE})
    assert all(check.ok for check in done.checks)


def test_a_caffe_file_holds_a_function_as_caffes_layers(read: Any, tmp_path: Path) -> None:
    net = read(NET).after(lambda prob: prob * np.float32(2))
    done = net.write(tmp_path / "whole.prototxt")
    assert all(check.ok for check in done.checks)
    assert "function" not in (tmp_path / "whole.prototxt").read_text()


@pytest.mark.parametrize(
    ("function", "message"),
    [(best, "has no layer for ArgMax"), (picture, "function 'picture': Caffe has no uint8, only float32")],
)
def test_what_caffe_cannot_express_is_refused(read: Any, tmp_path: Path, function: Any, message: str) -> None:
    net = read(NET)
    whole = net.before(function, IMAGE) if function is picture else net.after(function)
    with pytest.raises(LayerError, match=message):
        whole.write(tmp_path / "whole.prototxt")


def test_results_are_inputs_by_name_or_in_order(read: Any) -> None:
    net = read(TWO)
    rows = np.array([[1, -2, 3]], np.float32)
    named = net.before(lambda x: {"b": x * np.float32(2), "a": x}, rows)
    ordered = net.before(lambda x: (x, x * np.float32(2)), rows)
    for whole in (named, ordered):
        assert list(whole.inputs) == ["x"]
        assert_same(whole.compile("numpy")(rows)["sum"], 3 * rows)


def test_an_input_that_the_function_does_not_compute_stays(read: Any) -> None:
    rows = np.array([[1, -2, 3]], np.float32)
    whole = read(TWO).before(lambda x: {"b": x * np.float32(2)}, rows)
    assert list(whole.inputs) == ["x", "a"]
    assert_same(whole.compile("onnxruntime")({"x": rows, "a": -rows})["sum"], rows)


def test_parameters_are_outputs_by_name_or_in_order(read: Any) -> None:
    net = read(TWO)
    rows = np.array([[1, -2, 3]], np.float32)
    for function in (lambda sum, abs: sum - abs, lambda y, x: x - y):  # in alphabetical order: abs, sum
        found = net.after(function).compile("numpy")({"a": rows, "b": rows})
        assert_same(found["output"], 2 * rows - np.abs(rows))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda data: data, InputError, "the network has a value 'data'; rename the parameter"),
        (lambda x: {"image": x}, InputError, "the network has no input 'image'; its inputs: data"),
        (lambda x: (x, x), InputError, "returns 2 arrays, the network has 1 inputs"),
        (lambda x: x if x.sum() > 0 else -x, TraceError, r"test_functions.py:\d+: if, while, and, or, not"),
    ],
)
def test_a_function_that_does_not_fit_is_refused(read: Any, function: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        read(NET).before(function, ((1, 3, 8, 8), "float32"))


def test_a_shape_that_does_not_fit_names_the_layer(read: Any) -> None:
    whole = read(NET).before(lambda x: x.reshape(-1), ((1, 3, 8, 8), "float32"))
    with pytest.raises(LayerError, match=r"layer 'pool' \(Pooling\)"):
        whole.compile("numpy")(np.ones((1, 3, 8, 8), np.float32))


def test_outputs_of_unknown_shape_need_shapes(read: Any) -> None:
    net = read(NET.replace("input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }", ""))
    with pytest.raises(InputError, match="the shape of output 'prob' is not known"):
        net.after(best)
    assert list(net.after(best, shapes={"data": (1, 3, 8, 8)}).outputs) == ["label", "score"]
