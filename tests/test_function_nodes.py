"""Net.before and Net.after put NumPy functions into a network, which every engine and file then holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import anylayer
from anylayer import ops
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
def test_function_that_caffe_cannot_express_is_refused(
    read: Any, tmp_path: Path, function: Any, message: str
) -> None:
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


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_parameters_may_be_named_like_inputs(read: Any, engine: str) -> None:
    rows = np.array([[1, -2, 3]], np.float32)
    fed = read(TWO).before(lambda a: {"a": a * np.float32(3)}, rows)
    shared = read(TWO).before(lambda a: {"b": a * np.float32(3)}, rows)
    assert list(fed.inputs) == ["a", "b"]
    assert list(shared.inputs) == ["a"]
    assert_same(fed.compile(engine)({"a": rows, "b": -rows})["sum"], 2 * rows)
    assert_same(shared.compile(engine)({"a": rows})["sum"], 4 * rows)


def test_parameter_named_like_another_value_is_refused(read: Any) -> None:
    with pytest.raises(InputError, match="the network has a value 'sum'; rename the parameter"):
        read(TWO).before(lambda sum: {"a": sum}, np.ones((1, 3), np.float32))
    with pytest.raises(InputError, match=r"reads the input 'b', too, as float32\[1, 3\], not as float32\[1, 4\]"):
        read(TWO).before(lambda b: {"a": b[:, :3]}, np.ones((1, 4), np.float32))


def test_parameters_are_outputs_by_name_or_in_order(read: Any) -> None:
    net = read(TWO)
    rows = np.array([[1, -2, 3]], np.float32)
    for function in (lambda sum, abs: sum - abs, lambda y, x: x - y):  # in alphabetical order: abs, sum
        found = net.after(function).compile("numpy")({"a": rows, "b": rows})
        assert_same(found["output"], 2 * rows - np.abs(rows))


@pytest.mark.parametrize(
    ("function", "error", "message"),
    [
        (lambda x: {"image": x}, InputError, "the network has no input 'image'; its inputs: data"),
        (lambda x: (x, x), InputError, "returns 2 arrays, the network has 1 input"),
        (
            lambda x: x / np.float64(2),
            InputError,
            "returns float64 for the network's input 'data', which is float32",
        ),
        (lambda x: x if x > 0 else -x, TraceError, r"test_function_nodes.py:\d+: if, while, and, or, not"),
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


DETECTOR = """
name: "detector" input: "data" input_shape { dim: 1 dim: 3 dim: 8 dim: 8 }
layer { name: "loc" type: "Convolution" bottom: "data" top: "loc"
        convolution_param { num_output: 4 kernel_size: 1 } }
layer { name: "conf" type: "Convolution" bottom: "data" top: "conf"
        convolution_param { num_output: 2 kernel_size: 1 } }
"""


def top_three(prob: Any) -> Any:
    """Return the three largest values of a softmax over the channels, and their labels."""
    e = np.exp(prob - prob.max(axis=1, keepdims=True))
    values, labels = ops.top_k((e / e.sum(axis=1, keepdims=True)).reshape(prob.shape[0], -1), 3)
    return {"values": values, "labels": labels}


def label_map(conf: Any) -> Any:
    return {"labels": conf.argmax(axis=1).astype(np.uint8)}


def detections(loc: Any, conf: Any) -> Any:
    """Decode a box per pixel, and keep up to five boxes per class that do not overlap a better one."""
    rows, columns = np.meshgrid(np.arange(8, dtype=np.float32), np.arange(8, dtype=np.float32), indexing="ij")
    delta = loc.transpose(0, 2, 3, 1).reshape(1, -1, 4)
    centers = np.stack([columns, rows], axis=-1).reshape(1, -1, 2) + np.float32(0.1) * delta[..., :2]
    sizes = np.exp(np.float32(0.2) * np.clip(delta[..., 2:], -2, 2)) * np.float32(2)
    boxes = np.concatenate([centers - sizes / 2, centers + sizes / 2], axis=-1)
    selected, count = ops.nms(boxes, conf.reshape(1, 2, -1), max_per_class=5, iou_threshold=0.3)
    chosen = boxes[0][np.maximum(selected[:, 2], 0)]
    return {"boxes": np.where((selected[:, 2] >= 0)[:, None], chosen, np.float32(-1)), "count": count}


def by_hand(boxes: Any, scores: Any) -> list[Any]:
    """Return the boxes that a greedy NMS keeps, in a loop over single boxes."""
    kept: list[Any] = []
    for i in np.argsort(-scores, kind="stable"):
        one = boxes[i]
        for other in kept:
            sides = np.minimum(one[2:], other[2:]) - np.maximum(one[:2], other[:2])
            inside = float(np.prod(np.maximum(sides, 0)))
            if inside / (np.prod(one[2:] - one[:2]) + np.prod(other[2:] - other[:2]) - inside) > 0.3:
                break
        else:
            kept.append(one)
    return kept[:5]


def run_file(path: Path, x: Any) -> dict[str, Any]:
    """Return the outputs of a file, run by ONNX Runtime or OpenVINO directly."""
    if path.suffix == ".onnx":
        session = onnxruntime.InferenceSession(str(path))
        return dict(zip([o.name for o in session.get_outputs()], session.run(None, {"data": x})))
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    model = openvino.Core().compile_model(str(path), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = model({"data": x})
    return {port.get_any_name(): np.array(found[port]) for port in model.outputs}


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize("after", [top_three, label_map])
def test_files_end_with_labels(read: Any, tmp_path: Path, after: Any, suffix: str) -> None:
    text = DETECTOR.replace("num_output: 2", "num_output: 9").replace('"conf"', '"prob"')
    output = "prob" if after is top_three else "conf"
    net = read(text.replace('"prob"', f'"{output}"')).fill()
    net.network.outputs.pop("loc")
    net.after(after).write(tmp_path / f"f.{suffix}")
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    scores = net.compile("numpy")(x)[output]
    found = run_file(tmp_path / f"f.{suffix}", x)
    if after is label_map:
        np.testing.assert_array_equal(found["labels"], np.argmax(scores, axis=1))
        return
    e = np.exp(scores.astype(np.float64))
    flat = (e / e.sum(axis=1, keepdims=True)).reshape(-1)
    order = np.argsort(-flat)[:3]
    np.testing.assert_array_equal(found["labels"][0], order)
    np.testing.assert_allclose(found["values"][0], flat[order], rtol=1e-5)


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_files_end_with_boxes(read: Any, tmp_path: Path, suffix: str) -> None:
    net = read(DETECTOR).fill()
    net.after(detections).write(tmp_path / f"f.{suffix}")
    x = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)
    heads = net.compile("numpy")(x)
    delta = heads["loc"].reshape(4, 64).T.astype(np.float64)
    place = np.array([(c, r) for r in range(8) for c in range(8)], np.float64) + 0.1 * delta[:, :2]
    size = 2 * np.exp(0.2 * np.clip(delta[:, 2:], -2, 2))
    boxes = np.concatenate([place - size / 2, place + size / 2], axis=1)
    want = [box for scores in heads["conf"].reshape(2, 64) for box in by_hand(boxes, scores)]
    found = run_file(tmp_path / f"f.{suffix}", x)
    assert int(found["count"]) == len(want)
    np.testing.assert_allclose(found["boxes"][: len(want)], want, atol=1e-4)
