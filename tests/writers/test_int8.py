"""Files in int8: quantized convolutions and matrix products, an error per node, and refusals by name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import anylayer
from anylayer import ops
from anylayer.errors import ConversionError, InputError

NET = """
name: "net" input: "data" input_shape { dim: 1 dim: 3 dim: 16 dim: 16 }
layer { name: "conv1" type: "Convolution" bottom: "data" top: "conv1"
        convolution_param { num_output: 32 kernel_size: 3 pad: 1 } }
layer { name: "relu1" type: "ReLU" bottom: "conv1" top: "conv1" }
layer { name: "blur" type: "Blur" bottom: "conv1" top: "blur" }
layer { name: "fc" type: "InnerProduct" bottom: "blur" top: "fc" inner_product_param { num_output: 10 } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""


class Blur(anylayer.Layer):
    """A depthwise convolution with a fixed kernel."""

    def forward(self, x: Any) -> Any:
        kernel = np.full((x.shape[1], 1, 3, 3), 1 / 9, np.float32)
        return ops.conv(x, kernel, pads=(1, 1, 1, 1), group=x.shape[1])


@pytest.fixture
def net(tmp_path: Path) -> anylayer.Net:
    (tmp_path / "net.prototxt").write_text(NET)
    return anylayer.read(tmp_path / "net.prototxt", layers={"Blur": Blur}).fill()


def noise(count: int, scale: float = 1.0) -> list[dict[str, Any]]:
    """Return inputs of the network."""
    random = np.random.default_rng(0)
    return [{"data": scale * random.standard_normal((1, 3, 16, 16)).astype(np.float32)} for _ in range(count)]


def relative_error(got: Any, want: Any) -> float:
    """Return the root mean square of the error, relative to that of the values."""
    return float(np.sqrt(np.square(got - want).mean() / np.square(want).mean()))


def producers(model: Any) -> dict[str, str]:
    """Return the operator that gives each value of a model."""
    return {name: node.op_type for node in model.graph.node for name in node.output}


def test_int8_onnx_has_quantized_weights(net: anylayer.Net, tmp_path: Path) -> None:
    full = net.write(tmp_path / "full.onnx")
    done = net.write(tmp_path / "int8.onnx", precision="int8", calibrate=noise(8))
    assert done.files[0].stat().st_size < 0.35 * full.files[0].stat().st_size
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")  # of no effect with VNNI instructions
    session = onnxruntime.InferenceSession(str(done.files[0]), options)
    assert [i.type for i in (*session.get_inputs(), *session.get_outputs())] == ["tensor(float)"] * 2
    x = noise(9)[-1]
    assert 0 < relative_error(session.run(None, x)[0], net.compile("numpy")(x)["prob"]) < 0.05


def test_file_in_int8_written_again_is_not_larger(net: anylayer.Net, tmp_path: Path) -> None:
    net.write(tmp_path / "int8.onnx", precision="int8", calibrate=noise(8), verify=False)
    done = anylayer.read(tmp_path / "int8.onnx").write(tmp_path / "again.onnx")
    assert done.checks and all(c.ok for c in done.checks)
    assert done.files[0].stat().st_size <= 1.01 * (tmp_path / "int8.onnx").stat().st_size  # names of constants


def test_int8_ir_has_quantized_weights(net: anylayer.Net, tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino", reason="openvino is not installed")
    full = net.write(tmp_path / "full.xml")
    done = net.write(tmp_path / "int8.xml", precision="int8", calibrate=noise(8))
    assert done.files[0].stat().st_size < 0.35 * full.files[0].stat().st_size
    model = openvino.Core().compile_model(str(tmp_path / "int8.xml"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    x = noise(9)[-1]
    assert 0 < relative_error(model(x)["prob"], net.compile("numpy")(x)["prob"]) < 0.05


@pytest.mark.parametrize("suffix", [".onnx", ".xml"])
def test_reduced_range_is_right_on_every_processor(net: anylayer.Net, tmp_path: Path, suffix: str) -> None:
    x = noise(9)[-1]
    want = net.compile("numpy")(x)["prob"]
    path = net.write(tmp_path / f"int8{suffix}", precision="int8", calibrate=noise(8), reduce_range=True).files[-1]
    if suffix == ".onnx":
        model = onnx.load(path)
        weights = [onnx.numpy_helper.to_array(i) for i in model.graph.initializer if i.data_type == 3 and i.dims]
        assert max(abs(w.astype(int)).max() for w in weights) == 64
        assert "7 bits" in {p.key: p.value for p in model.metadata_props}["anylayer.int8"]
        got = onnxruntime.InferenceSession(str(path)).run(None, x)[0]
    else:
        openvino = pytest.importorskip("openvino", reason="openvino is not installed")
        config = {"INFERENCE_PRECISION_HINT": "f32"}
        compiled = openvino.Core().compile_model(str(path), "CPU", config)
        assert "7 bits" in openvino.Core().read_model(str(path)).get_rt_info(["anylayer", "int8"]).astype(str)
        got = compiled(x)["prob"]
    assert 0 < relative_error(got, want) < 0.05


def test_file_in_int8_states_where_sums_saturate(net: anylayer.Net, tmp_path: Path) -> None:
    done = net.write(tmp_path / "int8.onnx", precision="int8", calibrate=noise(2))
    assert any("without VNNI" in note and "reduce_range=True" in note for note in done.notes)
    stated = {p.key: p.value for p in onnx.load(tmp_path / "int8.onnx").metadata_props}["anylayer.int8"]
    assert "without VNNI" in stated


@pytest.mark.parametrize("engine", ["onnxruntime", "openvino"])
def test_file_in_int8_runs_without_saturation(net: anylayer.Net, tmp_path: Path, engine: str) -> None:
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    net.write(tmp_path / "int8.onnx", precision="int8", calibrate=noise(8))
    int8 = anylayer.read(tmp_path / "int8.onnx")
    x = noise(9)[-1]
    assert relative_error(int8.compile(engine)(x)["prob"], int8.compile("numpy")(x)["prob"]) < 0.01


def test_layers_of_the_user_stay_in_float32(net: anylayer.Net, tmp_path: Path) -> None:
    net.write(tmp_path / "int8.onnx", precision="int8", calibrate=noise(2))
    model = onnx.load(tmp_path / "int8.onnx")
    made = producers(model)
    weights = {
        node.name: made.get(node.input[1], "") for node in model.graph.node if node.name in ("conv1", "blur")
    }
    assert weights == {"conv1": "DequantizeLinear", "blur": ""}
    assert {node.op_type for node in model.graph.node if node.name == "prob"} == {"Softmax"}


def test_node_stays_in_float32(net: anylayer.Net, tmp_path: Path) -> None:
    net.write(tmp_path / "int8.onnx", precision="int8", calibrate=noise(2), float32=["fc"])
    model = onnx.load(tmp_path / "int8.onnx")
    net.write(tmp_path / "other.onnx", precision="int8", calibrate=noise(2), float32=["relu1"])
    other = onnx.load(tmp_path / "other.onnx")
    conv = next(node for node in other.graph.node if node.name == "conv1")
    assert producers(other).get(conv.input[1]) is None
    fc = next(node for node in model.graph.node if node.op_type in ("Gemm", "MatMul"))
    assert producers(model).get(fc.input[1]) is None
    assert {w.name: w.data_type for w in model.graph.initializer}[fc.input[1]] == onnx.TensorProto.FLOAT


def test_node_report_has_the_error_of_each_node(net: anylayer.Net, tmp_path: Path) -> None:
    x = noise(9)[-1]
    done = net.write(tmp_path / "int8.onnx", precision="int8", calibrate=noise(4), verify=x, reduce_range=True)
    found = {n.name: n for n in done.nodes}
    assert [*found] == ["relu1", "blur", "fc", "prob"]  # conv1 is a part of relu1
    inner = onnx.load(tmp_path / "int8.onnx")
    inner.graph.output.append(onnx.ValueInfoProto(name="blur"))
    session = onnxruntime.InferenceSession(inner.SerializeToString())
    want = net.compile("numpy", outputs=["blur"])(x)["blur"]
    assert found["blur"].error == pytest.approx(relative_error(session.run(["blur"], x)[0], want), rel=1e-3)
    assert done.to_dict()["nodes"][1]["name"] == "blur"


def test_node_that_costs_most_is_named(net: anylayer.Net, tmp_path: Path) -> None:
    tiny = noise(1)[0]
    with pytest.raises(
        ConversionError, match=r"output 'prob' differs .* node that costs most is 'relu1'"
    ) as caught:
        net.write(tmp_path / "int8.onnx", precision="int8", calibrate=noise(2, 1e-3), verify=tiny)
    assert "Keep it in float32 where the format can (float32=['relu1'])" in str(caught.value)
    assert not list(tmp_path.glob("*.onnx")) and not list(tmp_path.glob(".*"))


def test_same_network_gives_the_same_bytes(net: anylayer.Net, tmp_path: Path) -> None:
    for name in ("a.onnx", "b.onnx"):
        net.write(tmp_path / name, precision="int8", calibrate=noise(2))
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.parametrize(
    ("options", "rule"),
    [
        ({}, r"precision='int8' needs calibration data, .* give calibrate="),
        ({"calibrate": []}, r"precision='int8' needs calibration data"),
        ({"calibrate": [{"x": 1}]}, r"calibration set 0: input 'data' is missing"),
        (
            {"calibrate": [noise(1)[0], np.zeros((1, 3, 8, 8))]},
            r"calibration set 1: input 'data' has shape \(1, 3, 8, 8\), expected \(1, 3, 16, 16\)",
        ),
        (
            {"calibrate": [{n: x * np.float32(np.nan) for n, x in noise(1)[0].items()}]},
            "calibration set 0: input 'data' holds NaN or infinities",
        ),
        ({"calibrate": 3}, "calibrate must be a list of sets of inputs"),
        ({"calibrate": noise(1), "keep": ["Blur"]}, "precision='int8' needs standard operators only"),
        ({"calibrate": noise(1), "external": True}, "needs the weights in the file itself"),
        (
            {"calibrate": noise(1), "float32": ["conv1", "fc"]},
            "needs a convolution or matrix product with constant weights outside your own layers",
        ),
    ],
)
def test_invalid_options_are_refused_and_write_no_file(
    net: anylayer.Net, tmp_path: Path, options: dict[str, Any], rule: str
) -> None:
    with pytest.raises(InputError, match=rule):
        net.write(tmp_path / "int8.onnx", precision="int8", **options)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["net.prototxt"]


def test_calibration_without_int8_is_refused(net: anylayer.Net, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="calibrate needs precision='int8'"):
        net.write(tmp_path / "full.onnx", calibrate=noise(1))
