"""Models of a Triton repository: the folder, config.pbtxt in Triton's own schema, batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import anylayer
from anylayer.errors import ConversionError, InputError

NET = """
input: "data" input_shape { dim: 1 dim: 2 dim: 6 dim: 6 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" convolution_param {
  num_output: 3 kernel_size: 3 weight_filler { type: "constant" value: 0.1 } } }
layer { name: "last" type: "%s" bottom: "conv" top: "last" }
"""


class Mixes:
    """Subtract the mean over the batch."""

    def __init__(self, params, blobs):
        pass

    def forward(self, inputs):
        return [inputs[0] - inputs[0].mean(axis=0, keepdims=True)]


def net(folder: Path, last: str = "ReLU") -> anylayer.Net:
    (folder / "net.prototxt").write_text(NET % last)
    return anylayer.read(folder / "net.prototxt", layers=[("Mixes", Mixes)]).fill()


def config(folder: Path) -> Any:
    """Return config.pbtxt as Triton's own message."""
    reason = "tritonclient[grpc] is not installed"
    schema = pytest.importorskip("tritonclient.grpc.model_config_pb2", reason=reason, exc_type=ImportError)
    from google.protobuf import text_format

    return text_format.Parse((folder / "config.pbtxt").read_text(), schema.ModelConfig())


def test_folder_has_the_layout_of_a_model_repository(tmp_path: Path) -> None:
    done = net(tmp_path).write(tmp_path / "models" / "net", "triton")
    root = tmp_path / "models"
    names = sorted(p.relative_to(root).as_posix() for p in root.rglob("*") if p.is_file())
    assert names == ["net/1/model.onnx", "net/config.pbtxt"]
    assert done.files == [root / "net" / "config.pbtxt", root / "net" / "1" / "model.onnx"]
    assert [check.ok for check in done.checks] == [True]
    assert (
        done.notes[0] == "the server does not join requests into batches: the batch size is not open (batch='N')"
    )


def test_openvino_runs_the_model_of_the_folder(tmp_path: Path) -> None:
    """OpenVINO Model Server reads NAME/VERSION/*.onnx, where VERSION is a positive integer, with OpenVINO."""
    pytest.importorskip("openvino", reason="openvino is not installed")
    from anylayer.libraries.openvino import shared_core

    read = net(tmp_path)
    read.write(tmp_path / "models" / "net", "triton", batch="N")
    (version,) = (path for path in (tmp_path / "models" / "net").iterdir() if path.is_dir())
    assert int(version.name) > 0
    model = shared_core().compile_model(str(version / "model.onnx"), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    x = np.random.default_rng(0).standard_normal((5, 2, 6, 6)).astype(np.float32)
    (found,) = model.create_infer_request().infer({"data": x}).values()
    np.testing.assert_allclose(found, read.compile("numpy", shapes={"data": x.shape})(x)["last"], atol=1e-5)


def test_config_states_the_types_of_the_file(tmp_path: Path) -> None:
    net(tmp_path).write(tmp_path / "my net", "triton")
    found = config(tmp_path / "my net")
    assert (found.name, found.backend, found.max_batch_size) == ("my net", "onnxruntime", 0)
    assert [(i.name, list(i.dims)) for i in found.input] == [("data", [1, 2, 6, 6])]
    assert [(o.name, list(o.dims)) for o in found.output] == [("last", [1, 3, 4, 4])]
    types = type(found).DESCRIPTOR.file.enum_types_by_name["DataType"].values_by_number
    assert types[found.input[0].data_type].name == "TYPE_FP32"
    assert not found.HasField("dynamic_batching")


def test_config_leaves_open_sizes_and_batches_to_the_server(tmp_path: Path) -> None:
    shapes = {"data": ("N", 2, "H>=3", 6)}
    net(tmp_path).write(tmp_path / "net", "triton", shapes=shapes, max_batch=5)
    found = config(tmp_path / "net")
    assert (found.max_batch_size, found.HasField("dynamic_batching")) == (5, True)
    assert [list(t.dims) for t in (*found.input, *found.output)] == [[2, -1, 6], [3, -1, 4]]


def test_range_of_the_batch_limits_the_servers_batch(tmp_path: Path) -> None:
    net(tmp_path).write(tmp_path / "net", "triton", shapes={"data": ("N<=3", 2, 6, 6)})
    assert "max_batch_size: 3\n" in (tmp_path / "net" / "config.pbtxt").read_text()


def test_batches_that_change_results_are_refused(tmp_path: Path) -> None:
    mixing = net(tmp_path, "Mixes")
    with pytest.raises(ConversionError, match=r"'last' differs in single samples .* give max_batch=0"):
        mixing.write(tmp_path / "net", "triton", batch=True)
    assert not (tmp_path / "net").exists()
    mixing.write(tmp_path / "net", "triton", batch=True, max_batch=0)
    text = (tmp_path / "net" / "config.pbtxt").read_text()
    assert "max_batch_size: 0\n" in text and "dims: [-1, 2, 6, 6]" in text


def test_rank_0_is_reshaped(tmp_path: Path) -> None:
    source = anylayer.read(_scalar_model(tmp_path))
    source.write(tmp_path / "scalar", "triton")
    found = config(tmp_path / "scalar")
    assert [list(t.dims) for t in (*found.input, *found.output)] == [[1], [1]]
    assert all(t.HasField("reshape") and not list(t.reshape.shape) for t in (*found.input, *found.output))


def _scalar_model(folder: Path) -> Path:
    from onnx import TensorProto, helper

    ends = [helper.make_tensor_value_info(name, TensorProto.INT64, []) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", ends[:1], ends[1:])
    path = folder / "scalar.onnx"
    path.write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9).SerializeToString()
    )
    return path


def test_another_version_joins_the_folder(tmp_path: Path) -> None:
    source = net(tmp_path)
    source.write(tmp_path / "net", "triton")
    source.write(tmp_path / "net", "triton", version=2)
    x = np.ones((1, 2, 6, 6), np.float32)
    want = source.compile("numpy")(x)["last"]
    for version in ("1", "2"):
        session = onnxruntime.InferenceSession(tmp_path / "net" / version / "model.onnx")
        np.testing.assert_allclose(session.run(["last"], {"data": x})[0], want, rtol=1e-5)


def test_edited_config_is_not_replaced(tmp_path: Path) -> None:
    source = net(tmp_path)
    source.write(tmp_path / "net", "triton")
    config_file = tmp_path / "net" / "config.pbtxt"
    config_file.write_text(config_file.read_text() + "# mine\n")
    with pytest.raises(InputError, match=r"config.pbtxt exists and has other settings, perhaps yours: remove it"):
        source.write(tmp_path / "net", "triton")
    assert config_file.read_text().endswith("# mine\n")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"version": 0}, "version must be a positive integer, got 0"),
        ({"version": "../x"}, "version must be a positive integer, got ../x"),
        ({"max_batch": -1}, "max_batch must be an integer of at least 0, got -1"),
        ({"max_batch": 4}, "max_batch=4: the batch size is not open"),
        ({"keep": ["ReLU"]}, "has no such option"),
    ],
)
def test_options_that_do_not_fit_are_refused(tmp_path: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        net(tmp_path).write(tmp_path / "net", "triton", **options)
    assert not (tmp_path / "net").exists()


def test_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    source = net(tmp_path)
    with pytest.raises(InputError, match=r"net.prototxt is a file, but the output is a folder"):
        source.write(tmp_path / "net.prototxt", "triton")
