"""The tolerance of outputs in which float32 itself rounds more than the tolerance of one layer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import anylayer
from anylayer.convert import generation
from anylayer.engines import onnxruntime
from anylayer.errors import ConversionError
from anylayer.generators import Project

TEXT = """
input: "data" input_shape { dim: 1 dim: 2000 }
layer { name: "sum" type: "InnerProduct" bottom: "data" top: "sum"
  inner_product_param { num_output: 4 bias_term: false } }
"""


@pytest.mark.parametrize("source", ["caffe", "onnx", "openvino"])
@pytest.mark.parametrize(("times", "accepted"), [(0, True), (2, True), (8, False)])
def test_tolerance_follows_from_rounding_of_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: float, accepted: bool, source: str
) -> None:
    random = np.random.default_rng(0)
    x = random.standard_normal((1, 2000)).astype(np.float32)
    weights = random.standard_normal((4, 2000)).astype(np.float32)
    weights -= (weights @ x[0] / (x @ x[0]))[:, None] * x  # the products cancel each other
    (tmp_path / "net.prototxt").write_text(TEXT)
    net = anylayer.read(tmp_path / "net.prototxt")
    net.network.nodes[0].blobs = [weights]
    if source != "caffe":
        file = tmp_path / {"onnx": "source.onnx", "openvino": "source.xml"}[source]
        net.write(file, verify={"data": np.abs(x)})
        net = anylayer.read(file)
    want = net.compile("numpy")(x)["sum"]
    rounding = np.abs(want - x.astype(np.float64) @ weights.T.astype(np.float64)).max()
    assert rounding > 1e-5 * np.abs(want).max()

    def inexact(run: Any) -> Any:
        return lambda feed: {name: want + np.float32(times * rounding) for name in run(feed)}

    def write() -> Any:
        return net.write(tmp_path / "net.onnx", verify={"data": x})

    original = onnxruntime.open_file
    monkeypatch.setattr(onnxruntime, "open_file", lambda *args: inexact(original(*args)))
    monkeypatch.setattr("anylayer.convert.regimes.MAX_ROUNDING", np.inf)
    if accepted:
        done = write()
        assert [(c.ok, c.rule) for c in done.checks] == [(True, "float64" if times else "share")]
        assert done.accepted_by == ["float64" if times else "share"] == done.to_dict()["accepted_by"]
        assert any("no more than float32 itself rounds" in note for note in done.notes) == bool(times)
    else:
        with pytest.raises(ConversionError, match="output 'sum' differs from the source"):
            write()


SPECTRUM = """
input: "data" input_shape { dim: 1 dim: 1 dim: 1 dim: 4096 }
layer { name: "filters" type: "Convolution" bottom: "data" top: "filters"
  convolution_param { num_output: 8 kernel_h: 1 kernel_w: 500 stride_h: 1 stride_w: 50 bias_term: false } }
layer { name: "power" type: "Power" bottom: "filters" top: "power" power_param { power: 2 } }
layer { name: "decibel" type: "Log" bottom: "power" top: "decibel" log_param { base: 10 shift: 1e-8 } }
layer { name: "mix" type: "Convolution" bottom: "decibel" top: "mix"
  convolution_param { num_output: 4 kernel_h: 1 kernel_w: 5 bias_term: false } }
layer { name: "notes" type: "Sigmoid" bottom: "mix" top: "notes" }
"""


def spectrum(folder: Path, source: str) -> tuple[anylayer.Net, dict[str, Any]]:
    """Return a network like basic-pitch, and a tone: the logarithm of frequencies, of which most are empty."""
    (folder / "net.prototxt").write_text(SPECTRUM)
    net = anylayer.read(folder / "net.prototxt")
    t = np.arange(4096)
    filters = [np.hanning(501)[:500] * np.cos(2 * np.pi * k * t[:500] / 500) for k in range(16, 144, 16)]
    mix = 0.05 * np.random.default_rng(0).standard_normal((4, 8, 1, 5))
    net.network.nodes[0].blobs = [np.array(filters, np.float32).reshape(FILTERS)]
    net.network.nodes[3].blobs = [mix.astype(np.float32).reshape(MIX)]
    if source != "caffe":
        noise = np.random.default_rng(1).standard_normal((1, 1, 1, 4096)).astype(np.float32)
        net.write(folder / "source.onnx", verify={"data": noise})
        net = anylayer.read(folder / "source.onnx")
    return net, {"data": (3 * np.cos(2 * np.pi * 16 * t / 500)).astype(np.float32).reshape(1, 1, 1, 4096)}


FILTERS, MIX = (8, 1, 1, 500), (4, 8, 1, 5)


def change_weights(
    monkeypatch: pytest.MonkeyPatch,
    shape: tuple[int, ...],
    change: Callable[[Any], None],
    *,
    with_values: bool = True,
) -> None:
    """Change the weights of this shape in every ONNX file before it is opened.

    with_values: also in files with values inside the network as outputs.
    """
    original = onnxruntime.open_file

    def open_file(path: Path, *args: Any) -> Any:
        model = onnx.load(path)
        if len(model.graph.output) > 1 and not with_values:
            return original(path, *args)
        (weights,) = (t for t in model.graph.initializer if tuple(t.dims) == shape)
        values = numpy_helper.to_array(weights).copy()
        change(values)
        weights.CopyFrom(numpy_helper.from_array(values, weights.name))
        onnx.save(model, path)
        return original(path, *args)

    monkeypatch.setattr(onnxruntime, "open_file", open_file)


@pytest.mark.parametrize("source", ["caffe", "onnx"])
def test_file_that_rounds_like_float32_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """The first sums have other last digits, as another order of addition gives them."""
    net, inputs = spectrum(tmp_path, source)

    def round_differently(weights: Any) -> None:
        weights *= 1 + np.float32(1.2e-7) * np.random.default_rng(2).choice([-1, 0, 1], weights.shape)

    change_weights(monkeypatch, FILTERS, round_differently)
    done = net.write(tmp_path / "file.onnx", verify=inputs)
    (check,) = done.checks
    assert check.rule == "float64" and check.error > 1e-5 * check.scale
    assert any("no more than float32 itself rounds" in note for note in done.notes)


@pytest.mark.parametrize("source", ["caffe", "onnx"])
@pytest.mark.parametrize("shape", [FILTERS, MIX])
def test_wrong_weight_is_refused_where_float32_rounds_as_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str, shape: tuple[int, ...]
) -> None:
    net, inputs = spectrum(tmp_path, source)

    def change(weights: Any) -> None:
        weights[(-1, *np.unravel_index(np.abs(weights[-1]).argmax(), shape[1:]))] += 1e-3

    change_weights(monkeypatch, shape, change)
    with pytest.raises(ConversionError, match="differs from the source"):
        net.write(tmp_path / "file.onnx", verify=inputs)
    assert not (tmp_path / "file.onnx").exists()


TWO = """
input: "data" input_shape { dim: 1 dim: 8 dim: 8 dim: 8 }
layer { name: "one" type: "Convolution" bottom: "data" top: "one"
  convolution_param { num_output: 8 kernel_size: 3 bias_term: false } }
layer { name: "two" type: "Convolution" bottom: "one" top: "two"
  convolution_param { num_output: 4 kernel_size: 3 bias_term: false } }
"""


def test_fault_in_the_file_without_values_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong fusion does not take place where the values in between are outputs."""
    (tmp_path / "net.prototxt").write_text(TWO)
    net = anylayer.read(tmp_path / "net.prototxt")
    random = np.random.default_rng(0)
    for node, count in zip(net.network.nodes, (8, 4)):
        node.blobs = [random.standard_normal((count, 8, 3, 3)).astype(np.float32)]

    def change(weights: Any) -> None:
        weights[0] *= 1 + 3e-3

    change_weights(monkeypatch, (4, 8, 3, 3), change, with_values=False)
    with pytest.raises(ConversionError, match="differs from the source"):
        net.write(tmp_path / "file.onnx")


def test_fault_of_small_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A node with small weights has small rounding errors, too."""
    one, two = TWO.split('layer { name: "two"')
    large = 'layer { name: "large" type: "Power" bottom: "one" top: "large" power_param { scale: 1e5 } }\n'
    two = two.replace('bottom: "one"', 'bottom: "large"')
    (tmp_path / "net.prototxt").write_text(f'{one}{large}layer {{ name: "two"{two}')
    net = anylayer.read(tmp_path / "net.prototxt")
    random = np.random.default_rng(0)
    for node, count, factor in zip(net.network.nodes[::2], (8, 4), (1e-5, 1)):
        node.blobs = [(factor * random.standard_normal((count, 8, 3, 3))).astype(np.float32)]

    def change(weights: Any) -> None:
        weights[0] *= 1 + 3e-3

    change_weights(monkeypatch, (8, 8, 3, 3), change)
    with pytest.raises(ConversionError, match="differs from the source"):
        net.write(tmp_path / "file.onnx")


TENSORFLOW = """
node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "shape" value { shape { dim { size: 1 } dim { size: 4096 } } } } }
node { name: "axis" op: "Const" attr { key: "dtype" value { type: DT_INT32 } }
  attr { key: "value" value { tensor { dtype: DT_INT32 tensor_shape { dim { size: 1 } } int_val: 1 } } } }
node { name: "sum" op: "Sum" input: "x" input: "axis" attr { key: "T" value { type: DT_FLOAT } } }
node { name: "small" op: "Const" attr { key: "dtype" value { type: DT_FLOAT } }
  attr { key: "value" value { tensor { dtype: DT_FLOAT tensor_shape {} float_val: 1e-6 } } } }
node { name: "y" op: "AddV2" input: "sum" input: "small" attr { key: "T" value { type: DT_FLOAT } } }
"""


def test_network_of_tensorflow_is_measured_in_float64(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's operators need inputs of one dtype, and its constants are nodes."""
    (tmp_path / "net.pbtxt").write_text(TENSORFLOW)
    x = np.random.default_rng(0).standard_normal((1, 4096)).astype(np.float32)
    x[0, 0] -= x.sum(dtype=np.float64)
    exact = x.sum(dtype=np.float64) + 1e-6
    net = anylayer.read(tmp_path / "net.pbtxt")
    rounding = float(net.compile("numpy")(x)["y"][0] - exact)
    assert abs(rounding) > 1e-5 * abs(exact)
    original = onnxruntime.open_file
    off = exact - 2 * rounding
    outputs = {n: np.array([x], np.float32) for n, x in (("y", off), ("sum", off - 1e-6))}
    monkeypatch.setattr(
        onnxruntime, "open_file", lambda *args: lambda feed: {n: outputs[n] for n in original(*args)(feed)}
    )
    monkeypatch.setattr("anylayer.convert.regimes.MAX_ROUNDING", np.inf)
    (check,) = net.write(tmp_path / "net.onnx", verify={"x": x}).checks
    assert check.rule == "float64"


@pytest.mark.needs("torch")
@pytest.mark.parametrize("factor", [1, 1.01])
def test_generated_code_may_differ_by_what_float32_rounds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, factor: float
) -> None:
    """The exponential of about 80 loses two digits, because the last digit of such a float32 is 8e-6."""
    random = np.random.default_rng(0)
    x, weights = np.ones((1, 4000), np.float32), random.standard_normal((4000, 40)).astype(np.float32)
    weights *= np.float32(80 / (x @ weights).max())
    nodes = [helper.make_node("MatMul", ["x", "w"], ["sums"]), helper.make_node("Exp", ["sums"], ["y"])]
    values = [helper.make_tensor_value_info(n, 1, [1, size]) for n, size in (("x", 4000), ("y", 40))]
    graph = helper.make_graph(nodes, "net", values[:1], values[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), tmp_path / "a.onnx"
    )
    net = anylayer.read(tmp_path / "a.onnx")
    run_test = generation.run_test

    def run_changed_test(project: Project, folder: Path, *rest: Any) -> list[str]:
        code = (folder / "model.py").read_text("utf-8")
        assert "torch.exp(" in code
        (folder / "model.py").write_text(code.replace("torch.exp(", f"{factor} * torch.exp("), "utf-8")
        return run_test(project, folder, *rest)

    monkeypatch.setattr(generation, "run_test", run_changed_test)
    if factor == 1:
        assert net.generate("pytorch", tmp_path / "out", inputs={"x": x}).report
    else:
        with pytest.raises(ConversionError, match="y: largest difference"):
            net.generate("pytorch", tmp_path / "out", inputs={"x": x})
