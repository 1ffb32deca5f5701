"""Files in float16: half the size, errors within the tolerance of float16, and refusals by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import anylayer
from anylayer.errors import ConversionError, InputError

NET = """
name: "net" input: "data" input_shape { dim: 1 dim: 3 dim: 16 dim: 16 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 32 kernel_size: 3 pad: 1 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "pool" type: "Pooling" bottom: "conv1" top: "pool" pooling_param { kernel_size: 2 stride: 2 } }
layer { name: "fc" type: "InnerProduct" bottom: "pool" top: "fc" inner_product_param { num_output: 10 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""


@pytest.fixture
def net(tmp_path: Path) -> anylayer.Net:
    (tmp_path / "net.prototxt").write_text(NET)
    return anylayer.read(tmp_path / "net.prototxt").fill()


def test_float16_onnx_has_half_the_size(net: anylayer.Net, tmp_path: Path) -> None:
    full = net.write(tmp_path / "full.onnx")
    half = net.write(tmp_path / "half.onnx", precision="float16")
    assert half.files[0].stat().st_size < 0.6 * full.files[0].stat().st_size
    assert [(check.ok, check.tolerance) for check in half.checks] == [(True, 1e-2)]
    model = onnx.load(half.files[0])
    kinds = {node.op_type: node for node in model.graph.node}
    assert {w.data_type for w in model.graph.initializer if w.name in kinds["Conv"].input} == {
        onnx.TensorProto.FLOAT16
    }
    session = onnxruntime.InferenceSession(str(half.files[0]))
    assert [i.type for i in (*session.get_inputs(), *session.get_outputs())] == ["tensor(float)"] * 2
    x = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    want = net.compile("numpy")(x)["prob"]
    assert np.abs(session.run(None, {"data": x})[0] - want).max() < 1e-2


def test_float16_ir_has_half_the_size(net: anylayer.Net, tmp_path: Path) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    full = net.write(tmp_path / "full.xml")
    half = net.write(tmp_path / "half.xml", precision="float16")
    assert half.files[0].suffix == ".bin"
    assert half.files[0].stat().st_size < 0.6 * full.files[0].stat().st_size
    assert all(check.ok for check in half.checks)


def test_an_input_that_no_layer_reads_may_come_first(tmp_path: Path) -> None:
    label = 'layer { name: "label" type: "ArgMax" bottom: "prob" top: "label" argmax_param { axis: 1 } }'
    unused = 'input: "unused" input_shape { dim: 2 } '
    (tmp_path / "net.prototxt").write_text(NET.replace('input: "data"', unused + 'input: "data"') + label)
    net = anylayer.read(tmp_path / "net.prototxt").fill()
    assert list(net.inputs) == ["unused", "data"]
    done = net.write(tmp_path / "half.onnx", precision="float16")
    assert [check.ok for check in done.checks] == [True, True]


@pytest.mark.parametrize("name", ["half.onnx", "half.xml"])
def test_weight_that_exceeds_float16_is_refused(net: anylayer.Net, tmp_path: Path, name: str) -> None:
    net.network.nodes[0].blobs[0][0, 0, 0, 0] = 1e5
    with pytest.raises(InputError, match="a weight exceeds 65504, the largest number of float16"):
        net.write(tmp_path / name, precision="float16")
    assert not (tmp_path / name).exists()


def test_weight_that_exceeds_float16_may_stay_in_float32(net: anylayer.Net, tmp_path: Path) -> None:
    net.network.nodes[0].blobs[0][0, 0, 0, 0] = 1e5
    small = np.random.default_rng(0).random((1, 3, 16, 16), np.float32) * 1e-3
    done = net.write(tmp_path / "half.onnx", precision="float16", float32=["conv1"], verify={"data": small})
    assert all(check.ok for check in done.checks)


DETECTIONS = """
input: "loc" input_shape { dim: 1 dim: 32 }
input: "conf" input_shape { dim: 1 dim: 24 }
input: "priors" input_shape { dim: 1 dim: 2 dim: 32 }
layer { name: "boxes" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "priors" top: "boxes"
        detection_output_param { num_classes: 3 keep_top_k: 4 confidence_threshold: 0.1
        nms_param { nms_threshold: 0.45 top_k: 6 } } }
"""


def test_selection_of_boxes_stays_in_float32(tmp_path: Path) -> None:
    """The boxes that are not selected are marked by the lowest number of float32."""
    (tmp_path / "net.prototxt").write_text(DETECTIONS)
    corners = np.random.default_rng(0).random((8, 4), np.float32)
    priors = np.stack([np.concatenate([corners[:, :2], corners[:, :2] + 0.1 + corners[:, 2:]], 1).ravel()] * 2)
    feed = {
        "loc": np.random.default_rng(1).standard_normal((1, 32), np.float32),
        "conf": np.random.default_rng(2).random((1, 24), np.float32),
        "priors": priors[None],
    }
    net = anylayer.read(tmp_path / "net.prototxt")
    done = net.write(tmp_path / "half.onnx", precision="float16", verify=feed)
    want = net.compile("numpy")(feed)["boxes"]
    found = onnxruntime.InferenceSession(str(done.files[0])).run(None, feed)[0]
    np.testing.assert_allclose(found, want, atol=5e-3)


@pytest.mark.parametrize(
    ("function", "x"),
    [
        (lambda x: np.floor(x), [2051.5, 4099.25, 7001.75]),
        (lambda x: (x[:, :2] / x[:, 2:3]).astype(np.int32), [2049.0, 3077.0, 1.5]),
        (lambda x: np.minimum(np.maximum(x[:, ::-1], 0), x[:, :1] - 1), [4099.0, 3000.5, 2049.25]),
        (lambda x: np.arange(5000, dtype=np.float32)[x.astype(np.int64)] * 2, [4097.0, 2049.0, 3.0]),
        (lambda x: np.floor(np.exp(np.sqrt(x) / 8)), [4097.0, 4099.0, 3.0]),
        (lambda x: np.sqrt(x), [1e5, 1e6, 1e7]),
        (lambda x: np.floor(np.take_along_axis(x, np.array([[2, 0]]), 1)), [2049.0, 3.0, 4097.0]),
    ],
    ids=[
        *("floor", "cast", "clip to a picture", "indices", "after another operator", "beyond float16"),
        "selected",
    ],
)
def test_values_between_operators_in_float32_are_not_rounded(
    tmp_path: Path, function: Any, x: list[float]
) -> None:
    """Float16 has 11 binary digits: above 2048 it does not hold every integer."""
    given = np.array([x], np.float32)
    anylayer.export(function, given, path=tmp_path / "half.onnx", precision="float16")
    got = onnxruntime.InferenceSession(str(tmp_path / "half.onnx")).run(None, {"x": given})[0]
    np.testing.assert_allclose(got, function(given), rtol=1e-6)


def test_unknown_precision_is_refused(net: anylayer.Net, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no precision 'float8'; .*precisions: float32, float16, int8"):
        net.write(tmp_path / "half.onnx", precision="float8")


def test_float16_with_kept_layers_or_external_weights_is_refused(net: anylayer.Net, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs standard operators only"):
        net.write(tmp_path / "half.onnx", precision="float16", keep=["Softmax"])
    with pytest.raises(InputError, match="needs the weights in the file itself"):
        net.write(tmp_path / "half.onnx", precision="float16", external=True)


def test_node_that_costs_most_is_named(net: anylayer.Net, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("anylayer.writers._precision.DEEP_HALF_TOLERANCE", 1e-7)
    named = r"output 'prob' differs .* The node that costs most is '(conv1|fc)' .* Keep it .*float32=\['\1'\]"
    with pytest.raises(ConversionError, match=named):
        net.write(tmp_path / "half.onnx", precision="float16")
    assert not (tmp_path / "half.onnx").exists()


def test_node_stays_in_float32(net: anylayer.Net, tmp_path: Path) -> None:
    net.write(tmp_path / "half.onnx", precision="float16", float32=["conv1"])
    model = onnx.load(tmp_path / "half.onnx")
    weights = {node.op_type: node.input[1] for node in model.graph.node if node.op_type in ("Conv", "Gemm")}
    types = {w.name: w.data_type for w in model.graph.initializer}
    assert types[weights["Conv"]] == onnx.TensorProto.FLOAT
    assert types[weights["Gemm"]] == onnx.TensorProto.FLOAT16
    with pytest.raises(InputError, match=r"float32: the network has no node 'conv2'; did you mean 'conv1'\?"):
        net.write(tmp_path / "other.onnx", precision="float16", float32=["conv2"])


def test_inputs_and_outputs_become_float16_if_asked(net: anylayer.Net, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    want = net.compile("numpy")(x)["prob"]
    net.write(tmp_path / "half.onnx", precision="float16", io="float16")
    session = onnxruntime.InferenceSession(str(tmp_path / "half.onnx"))
    assert [i.type for i in (*session.get_inputs(), *session.get_outputs())] == ["tensor(float16)"] * 2
    assert np.abs(session.run(None, {"data": x.astype(np.float16)})[0] - want).max() < 1e-2
    with pytest.raises(InputError, match=r"io='float16' needs precision='float16'"):
        net.write(tmp_path / "other.onnx", io="float16")


def test_inputs_and_outputs_of_an_ir_become_float16_if_asked(net: anylayer.Net, tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    x = np.random.default_rng(0).standard_normal((1, 3, 16, 16)).astype(np.float32)
    net.write(tmp_path / "half.xml", precision="float16", io="float16")
    model = openvino.Core().compile_model(str(tmp_path / "half.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    assert [p.get_element_type() for p in (*model.inputs, *model.outputs)] == [openvino.Type.f16] * 2
    got = model({"data": x.astype(np.float16)})["prob"]
    assert np.abs(got - net.compile("numpy")(x)["prob"]).max() < 1e-2
    with pytest.raises(InputError, match=r"float32 has no effect with precision='float16' in this format"):
        net.write(tmp_path / "other.xml", precision="float16", float32=["conv1"])


def test_equal_labels_after_an_arg_max_need_no_further_rule(net: anylayer.Net, tmp_path: Path) -> None:
    def label(prob: Any) -> Any:
        return {"label": prob.argmax(axis=1).astype(np.float32) * np.float32(100)}

    done = net.after(label).write(tmp_path / "half.onnx", precision="float16")
    assert [(c.ok, c.rule) for c in done.checks] == [(True, "share")]
    assert not any("that are ordered, selected" in note for note in done.notes)


def test_digits_that_rounding_changes_have_no_limit(net: anylayer.Net, tmp_path: Path) -> None:
    def digit(prob: Any) -> Any:
        return {"label": np.floor(prob * np.float32(5e4)) % np.float32(7)}

    done = net.after(digit).write(tmp_path / "half.onnx", precision="float16")
    (check,) = done.checks
    assert check.ok and check.rule == "unlimited" and check.error > check.scale / 2
    assert check.tolerance == float("inf")
    assert any("output 'label' depends on values that are ordered, selected" in note for note in done.notes)
