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


@pytest.mark.parametrize("name", ["half.onnx", "half.xml"])
def test_weight_that_exceeds_float16_is_refused(net: anylayer.Net, tmp_path: Path, name: str) -> None:
    net.network.nodes[0].blobs[0][0, 0, 0, 0] = 1e5
    with pytest.raises(InputError, match="a weight exceeds 65504, the largest number of float16"):
        net.write(tmp_path / name, precision="float16")
    assert not (tmp_path / name).exists()


def test_unknown_precision_is_refused(net: anylayer.Net, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no precision 'float8'; .*precisions: float32, float16"):
        net.write(tmp_path / "half.onnx", precision="float8")


def test_float16_with_kept_layers_or_external_weights_is_refused(net: anylayer.Net, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="needs standard operators only"):
        net.write(tmp_path / "half.onnx", precision="float16", keep=["Softmax"])
    with pytest.raises(InputError, match="needs the weights in the file itself"):
        net.write(tmp_path / "half.onnx", precision="float16", external=True)


def test_node_with_too_large_error_is_named(net: anylayer.Net, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr("anylayer.writers.onnx.files.FLOAT16_TOLERANCE", 1e-7)
    with pytest.raises(ConversionError, match=r"output 'prob' differs .* The first node that differs is 'conv1'"):
        net.write(tmp_path / "half.onnx", precision="float16")
    assert not (tmp_path / "half.onnx").exists()
