"""Files with open sizes: written once, right at sizes that were not traced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import anylayer
from anylayer.errors import AnyLayerError, InputError, TraceError

PROTOTXT = """
name: "open"
input: "data" input_shape { dim: 1 dim: 2 dim: 20 dim: 24 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 3 kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "pool" type: "Pooling" bottom: "conv" top: "pool"
  pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "mine" type: "Mine" bottom: "pool" bottom: "data" top: "out" }
"""


class Stretch:
    """Repeat the first input to the size of the second, and add a ramp over the rows."""

    def __init__(self, params: Any, blobs: Any) -> None: ...

    def getMemoryShapes(self, inputs: Any) -> Any:
        (n, c, _, _), (_, _, h, w) = inputs
        return [[n, c, h, w]]

    def forward(self, inputs: Any) -> Any:
        x, like = inputs
        h, w = like.shape[2:]
        rows = (np.arange(h) * x.shape[2]) // h
        columns = np.arange(w) * x.shape[3] // w
        out = np.zeros((len(x), x.shape[1], h, w), np.float32)
        out[:] = x[:, :, rows][:, :, :, columns]
        out += np.linspace(0, 1, h).astype(np.float32)[:, None]
        return [out]


class Unrolled(Stretch):
    """Sum the rows in a loop that a trace unrolls."""

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[0][:2]]

    def forward(self, inputs: Any) -> Any:
        x = inputs[0]
        total = x[:, :, 0].sum(-1)
        for i in range(1, x.shape[2]):
            total = total + x[:, :, i].sum(-1)
        return [total]


class Branching(Stretch):
    """Change the sign of pictures that are tall."""

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[0]]

    def forward(self, inputs: Any) -> Any:
        x, like = inputs
        return [x if like.shape[3] >= like.shape[2] else -x]


def network(tmp_path: Path, cls: type = Stretch) -> Any:
    path = tmp_path / "net.prototxt"
    path.write_text(PROTOTXT)
    return anylayer.read(path, layers=[("Mine", cls)]).fill()


OPEN = {"data": ("N", 2, "H", "W")}


@pytest.mark.parametrize("suffix", ["onnx", "xml"])
def test_one_file_is_right_at_five_sizes_that_were_not_traced(tmp_path: Path, suffix: str) -> None:
    if suffix == "xml":
        pytest.importorskip("openvino", reason="openvino is not installed")
    done = network(tmp_path).write(tmp_path / f"net.{suffix}", shapes=OPEN)
    sizes = {c.sizes["data"] for c in done.checks if c.sizes is not None}
    assert len(sizes) == 5 and all(c.ok for c in done.checks)


def test_runtime_alone_computes_other_sizes(tmp_path: Path) -> None:
    net = network(tmp_path)
    net.write(tmp_path / "net.onnx", shapes=OPEN)
    session = onnxruntime.InferenceSession(str(tmp_path / "net.onnx"))
    for shape in ((1, 2, 5, 7), (3, 2, 31, 64)):
        x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
        want = net.compile("numpy", shapes={"data": shape})(x)["out"]
        np.testing.assert_allclose(session.run(None, {"data": x})[0], want, atol=1e-5)


def test_number_that_a_loop_fixes_is_refused_with_layer_and_line(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"node 'mine' \(test_sizes\.py:\d+\) computes something else at N=3, H="):
        network(tmp_path, Unrolled).write(tmp_path / "net.onnx", shapes=OPEN)
    assert not (tmp_path / "net.onnx").exists()
    assert network(tmp_path, Unrolled).write(tmp_path / "net.onnx", shapes={"data": ("N", 2, 20, "W")}).checks


def test_branch_on_a_size_is_a_condition_of_the_file(tmp_path: Path) -> None:
    net = network(tmp_path, Branching)
    done = net.write(tmp_path / "net.onnx", shapes=OPEN)
    assert any("W >= H" in note for note in done.notes)
    written = anylayer.read(tmp_path / "net.onnx")
    x = np.ones((1, 2, 12, 20), np.float32)
    want = net.compile("numpy", shapes={"data": x.shape})(x)["out"]
    np.testing.assert_allclose(written.compile("numpy", shapes={"data": x.shape})(x)["out"], want, atol=1e-6)
    with pytest.raises(InputError, match="the file allows only sizes with W >= H, got N = 1, H = 20, W = 12"):
        written.compile("numpy", shapes={"data": (1, 2, 20, 12)})


def test_multiples_and_ranges_are_names_in_the_file(tmp_path: Path) -> None:
    done = network(tmp_path).write(tmp_path / "net.onnx", shapes={"data": (1, 2, "4*h", "8<=W<=200")})
    (given,) = onnx.load(tmp_path / "net.onnx").graph.input
    assert [d.dim_param or d.dim_value for d in given.type.tensor_type.shape.dim] == [1, 2, "4*h", "W"]
    tried = [c.sizes["data"] for c in done.checks if c.sizes is not None]
    assert all(shape[2] % 4 == 0 and 8 <= shape[3] <= 200 for shape in tried)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [
        ({"date": ("N", 2, 3, 4)}, "the network has no input 'date'; did you mean 'data'"),
        ({"data": ("N", 2, "H?", 4)}, r"size 'H\?' is not understood"),
        ({"data": ("N", "C", 8, 8)}, "C == 2"),
    ],
)
def test_sizes_that_cannot_be_are_refused(tmp_path: Path, shapes: Any, message: str) -> None:
    with pytest.raises(AnyLayerError, match=message):
        network(tmp_path).write(tmp_path / "net.onnx", shapes=shapes)
    assert not (tmp_path / "net.onnx").exists()


def test_caffe_has_no_open_sizes(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Caffe's files have fixed sizes"):
        network(tmp_path).write(tmp_path / "out.prototxt", shapes=OPEN)


@pytest.mark.parametrize("stated", [True, False])
def test_random_weights_with_open_sizes(tmp_path: Path, stated: bool) -> None:
    text = PROTOTXT if stated else PROTOTXT.replace("input_shape { dim: 1 dim: 2 dim: 20 dim: 24 }", "")
    (tmp_path / "net.prototxt").write_text(text)
    net = anylayer.read(tmp_path / "net.prototxt", layers=[("Mine", Stretch)])
    shapes = {"data": ("N", 2, "H", "W")}
    net.fill(0, shapes)
    net.write(tmp_path / "net.onnx", shapes=shapes)
    found = onnxruntime.InferenceSession(tmp_path / "net.onnx").run(
        None, {"data": np.zeros((2, 2, 31, 17), np.float32)}
    )
    assert found[0].shape == (2, 3, 31, 17)


def test_file_is_verified_at_the_traced_sizes_where_there_are_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anylayer.convert.job.verified_sizes", lambda sizes: [])
    monkeypatch.setattr("anylayer.convert.conversion.verified_sizes", lambda sizes: [])
    done = network(tmp_path).write(tmp_path / "net.onnx", shapes=OPEN)
    assert len({c.sizes["data"] for c in done.checks if c.sizes is not None}) == 2
    assert any("no sizes that fulfil the conditions were found" in note for note in done.notes)
