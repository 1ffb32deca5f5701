"""Profiles: the costs of nodes, layers that are assumed free, the listing and the trace."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import anylayer
from anylayer.engines._onnxruntime_profile import _nodes
from anylayer.engines._openvino_profile import PerformanceCounts
from anylayer.errors import InputError, LayerError
from anylayer.inspect.costs import Cut, NodeCost, Part, Peaks, Profile, Steered
from anylayer.inspect.profile import profile
from anylayer.inspect.profile_listing import lines
from tests.engine_names import ALL, GENERAL
from tests.readers.openvino.ir import Ir

NET = """
layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 dim: 32 dim: 32 } } }
layer { name: "conv1" type: "Convolution" bottom: "x" top: "a"
        convolution_param { num_output: 8 kernel_size: 3 pad: 1 } }
layer { name: "norm1" type: "BatchNorm" bottom: "a" top: "a" }
layer { name: "scale1" type: "Scale" bottom: "a" top: "a" scale_param { bias_term: true } }
layer { name: "relu1" type: "ReLU" bottom: "a" top: "a" }
%s
layer { name: "conv2" type: "Convolution" bottom: "m" top: "y"
        convolution_param { num_output: 16 kernel_size: 1 } }
"""
MIDDLE = 'layer { name: "mid" type: "%s" bottom: "a" top: "m" }'
X = np.linspace(-1, 1, 4096, dtype=np.float32).reshape(1, 4, 32, 32)
MACS = {"conv1": 8 * 32 * 32 * 4 * 9, "conv2": 16 * 32 * 32 * 8}
ONE = 8 * 32 * 32 * 4
"""The bytes of the value between the convolutions."""


class Half:
    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        return [inputs[0] * np.float32(0.5)]


class InPython(Half):
    def getMemoryShapes(self, inputs: Any) -> Any:
        return [inputs[0]]

    def forward(self, inputs: Any) -> Any:
        return [np.frombuffer(inputs[0].tobytes(), np.float32).reshape(inputs[0].shape) / 2]


class Unwritten(InPython):
    def getMemoryShapes(self, inputs: Any) -> Any:
        return [[*inputs[0][:2], 16, 16]]

    def forward(self, inputs: Any) -> Any:
        raise NotImplementedError


Read = Callable[..., anylayer.Net]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """A function that reads the network with a layer of some type in its middle, by default with weights."""

    def read_(type_: str, *layers: Any, more: str = "", fill: bool = True) -> anylayer.Net:
        (tmp_path / "n.prototxt").write_text(NET % (MIDDLE % type_) + more)
        net = anylayer.read(tmp_path / "n.prototxt", layers=layers)
        return net.fill() if fill else net

    return read_


def short(net: anylayer.Net, engine: str, **others: Any) -> Profile:
    return profile(net, {"x": X}, engine, threads=1, seconds=0.01, **others)


@pytest.mark.parametrize("engine", GENERAL)
def test_every_layer_has_its_multiply_adds_and_a_time(read: Read, engine: str) -> None:
    found = short(read("Half", ("Half", Half)), engine)
    costs = [c for c in found.costs if c.where == "engine"]
    names = [name for cost in costs for name in cost.layers]
    assert found.counted
    assert {*names, *found.unnamed} == {"conv1", "norm1", "scale1", "relu1", "mid", "conv2"}
    assert found.unnamed in ([], ["mid"])  # OpenVINO folds the factor into conv2's weights and does not say so
    for layer, macs in MACS.items():
        (own,) = [c for c in costs if layer in c.layers and c.macs]
        assert own.macs == macs
        assert own.seconds > 0
        assert own.bytes >= (4096 if layer == "conv1" else ONE // 4) * 4


@pytest.mark.parametrize("engine", GENERAL)
def test_fused_layers_are_one_row(read: Read, engine: str) -> None:
    found = short(read("Half", ("Half", Half)), engine)
    (cost,) = [c for c in found.costs if "conv1" in c.layers and c.where == "engine"]
    assert cost.layers[:4] == ("conv1", "norm1", "scale1", "relu1")
    assert cost.types[:4] == ("Convolution", "BatchNorm", "Scale", "ReLU")


@pytest.mark.parametrize("engine", GENERAL)
def test_each_fused_convolution_keeps_its_time(tmp_path: Path, engine: str) -> None:
    layers = ['layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 4 dim: 32 dim: 32 } } }']
    for i in range(4):
        before = f"a{i}" if i else "x"
        layers.append(f"""layer {{ name: "conv{i}" type: "Convolution" bottom: "{before}" top: "a{i + 1}"
            convolution_param {{ num_output: 4 kernel_size: {3 + 2 * (i % 2)} pad: {1 + i % 2} }} }}
            layer {{ name: "relu{i}" type: "ReLU" bottom: "a{i + 1}" top: "a{i + 1}" }}""")
    (tmp_path / "n.prototxt").write_text("\n".join(layers))
    net = anylayer.read(tmp_path / "n.prototxt").fill()
    for node in net.network.nodes:
        for bias in node.blobs[1:]:
            bias[...] = 0  # OpenVINO removes the addition of such a bias, which bears the convolution's name
    found = short(net, engine)
    rows = {c.layers for c in found.costs if c.macs}
    assert rows == {(f"conv{i}", f"relu{i}") for i in range(4)}
    assert not [c for c in found.costs if c.where == "engine" and not c.macs]


DETECTION = """
input: "x" input_shape { dim: 1 dim: 8 dim: 4 dim: 4 }
layer { name: "loc" type: "Flatten" bottom: "x" top: "loc" }
layer { name: "conf" type: "Flatten" bottom: "x" top: "conf" }
layer { name: "priors" type: "PriorBox" bottom: "x" bottom: "x" top: "priors" prior_box_param {
  min_size: 1 aspect_ratio: 2 flip: false } }
layer { name: "found" type: "DetectionOutput" bottom: "loc" bottom: "conf" bottom: "priors" top: "found"
  detection_output_param { num_classes: 4 nms_param { nms_threshold: 0.5 } keep_top_k: 5 } }
"""


@pytest.mark.parametrize("engine", GENERAL)
def test_time_belongs_to_the_layer_that_computes(tmp_path: Path, engine: str) -> None:
    """The engine computes DetectionOutput together with the Flatten that gives its input."""
    (tmp_path / "n.prototxt").write_text(DETECTION)
    x = np.random.default_rng(0).random((1, 8, 4, 4), np.float32)
    net = anylayer.read(tmp_path / "n.prototxt")
    found = profile(net, {"x": x}, engine, seconds=0.01)
    joint = [cost for cost in found.costs if {"DetectionOutput", "Flatten"} <= {*cost.types}]
    assert joint and all(cost.types[cost.lead] == "DetectionOutput" for cost in joint)
    (types,) = [line for line in lines(found, None) if line.startswith("by type: ")]
    assert "DetectionOutput" in types and "Flatten" not in types
    rows = {row.name: row.figures for row in net.report({"x": x}, engine=engine, seconds=0.01).nodes}
    assert rows["found"].seconds and not rows["conf"].seconds


@pytest.mark.parametrize("engine", GENERAL)
def test_a_host_call_is_a_cut_with_its_own_row(read: Read, engine: str) -> None:
    found = short(read("InPython", ("InPython", InPython)), engine)
    (cost,) = [c for c in found.costs if c.where == "python"]
    assert (cost.layers, cost.types, cost.bytes) == (("mid",), ("InPython",), 2 * ONE)
    assert found.cuts == [Cut("mid", "InPython", "python")]
    assert [c.step for c in found.costs if c.where == "call"] == [0, 2]
    assert cost.seconds > 0
    assert any("cut into 2 graphs around 'mid' (InPython, in Python)" in line for line in lines(found, None))
    alone = replace(found, costs=(cost,))
    assert any("no layer runs in the engine, only 'mid' (InPython, in Python)" in s for s in lines(alone, None))


def test_engine_without_counters_says_so(read: Read) -> None:
    found = short(read("Half", ("Half", Half)), "numpy")
    assert [c.layers for c in found.costs] == [(n,) for n in ("conv1", "norm1", "scale1", "relu1", "mid", "conv2")]
    assert [c.macs for c in found.costs if c.macs] == list(MACS.values())
    assert not found.counted and not found.cuts
    assert "engine 'numpy' has no counters: the time of each layer is measured from outside" in lines(found, None)


def test_specialist_without_counters_times_its_call(read: Read) -> None:
    pytest.importorskip("ncnn", reason="ncnn is not installed")
    found = short(read("Half", ("Half", Half)), "ncnn")
    (cost,) = found.costs
    assert cost.macs == sum(MACS.values())
    assert "engine 'ncnn' has no counters: the time of each call is measured from outside" in lines(found, None)


@pytest.mark.parametrize("engine", ALL)
def test_free_layer_takes_no_time_and_gives_zeros(read: Read, engine: str) -> None:
    net = read("Missing", fill=False).assume_free({"Missing": "same"}).fill()
    found = short(net, engine)
    (cost,) = [c for c in found.costs if c.where == "free"]
    assert (cost.layers, cost.seconds, cost.bytes, cost.macs) == (("mid",), 0.0, 0, 0)
    assert (found.free, found.steered) == (["Missing"], [])
    bias = net.network.nodes[-1].blobs[1]
    y = net.compile(engine)({"x": X})["y"]
    np.testing.assert_array_equal(y, np.broadcast_to(bias.reshape(1, -1, 1, 1), y.shape))
    assert lines(found, None)[-1] == "no work depends on their values, so the estimate holds"


def test_free_layer_has_given_shape(read: Read) -> None:
    net = read("Missing", fill=False).assume_free({"Missing": [(1, 5, 7, 9)]}).fill()
    assert net.compile("numpy")({"x": X})["y"].shape == (1, 16, 7, 9)
    with pytest.raises(LayerError, match=r"layer 'mid'.*assumed free with 2 output shapes; it has 1 output \(m\)"):
        net.assume_free({"Missing": [(1,), (2,)]}).compile("onnxruntime")


class ShapesOnly:
    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def getMemoryShapes(self, inputs: Any) -> Any:
        return [[*inputs[0][:2], 16, 16]]


@pytest.mark.parametrize("cls", [Unwritten, ShapesOnly])
def test_free_layer_has_the_shapes_of_its_class(cls: type, read: Read) -> None:
    net = read("Unwritten", ("Unwritten", cls), fill=False).assume_free({"Unwritten": None}).fill()
    found = short(net, "onnxruntime")
    assert [c.where for c in found.costs if c.layers == ("mid",)] == ["free"]
    assert net.compile("onnxruntime")({"x": X})["y"].shape == (1, 16, 16, 16)


def test_free_layer_has_the_shapes_of_the_file(tmp_path: Path) -> None:
    nodes = [
        onnx.helper.make_node("Missing", ["x"], ["m"], name="mid", domain="my.domain"),
        onnx.helper.make_node("Relu", ["m"], ["y"], name="last"),
    ]
    kind, info = onnx.TensorProto.FLOAT, onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        nodes,
        "n",
        [info("x", kind, (1, 4, 32, 32))],
        [info("y", kind, (3, 5))],
        value_info=[info("m", kind, (3, 5))],
    )
    imports = [onnx.helper.make_opsetid("", 18), onnx.helper.make_opsetid("my.domain", 1)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=imports, ir_version=9), tmp_path / "n.onnx")
    net = anylayer.read(tmp_path / "n.onnx")
    (type_,) = [t for t in net.definitions if t.endswith("Missing")]
    assert net.assume_free({type_: None}).compile("onnxruntime")({"x": X})["y"].shape == (3, 5)


def test_dynamic_size_of_a_free_layer_is_its_maximum(tmp_path: Path) -> None:
    info = onnx.helper.make_tensor_value_info
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("NonZero", ["x"], ["y"], name="where")],
        "n",
        [info("x", onnx.TensorProto.FLOAT, (2, 3))],
        [info("y", onnx.TensorProto.INT64, (2, None))],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9)
    onnx.save(model, tmp_path / "n.onnx")
    net = anylayer.read(tmp_path / "n.onnx").assume_free({"NonZero": None})
    out = net.compile("onnxruntime")({"x": np.ones((2, 3), np.float32)})["y"]
    assert (out.shape, out.dtype) == ((2, 6), np.int64)


def test_free_layer_has_the_shapes_of_the_ports_of_an_ir_of_2018(tmp_path: Path) -> None:
    ir = Ir()
    ir.input("x", 1, 4, 32, 32)
    ir.layer("mid", "Missing", ["x"], [(1, 7)])
    net = anylayer.read(ir.save(tmp_path))
    assert net.assume_free({"Missing": None}).compile("onnxruntime")({"x": X})["mid"].shape == (1, 7)


def test_free_layer_without_known_shape_is_refused_with_remedy(read: Read) -> None:
    net = read("Missing", fill=False).assume_free({"Missing": None})
    rule = r"layer 'mid' \(Missing\): is assumed free, but neither .* states the shapes.*'same' for the shape"
    with pytest.raises(LayerError, match=rule):
        net.compile("onnxruntime")
    with pytest.raises(InputError, match=r"there is no layer of type 'Mising'; did you mean 'Missing'\?"):
        net.assume_free({"Mising": None})


TOP = 'layer { name: "best" type: "ArgMax" bottom: "y" top: "z" argmax_param { top_k: 3 } }'


@pytest.mark.parametrize("engine", ["numpy", "onnxruntime"])
def test_estimate_is_void_where_a_free_layer_steers_work(read: Read, engine: str) -> None:
    net = read("Missing", more=TOP, fill=False).assume_free({"Missing": "same"}).fill()
    found = short(net, engine)
    assert found.steered == [Steered("mid", "best", "ArgMax", "TopK: what it sorts")]
    assert found.to_dict()["valid"] is False
    assert "'mid' steers 'best' (ArgMax): TopK: what it sorts" in lines(found, None)[-1]
    assert not short(read("Half", ("Half", Half), more=TOP), engine).steered


def test_host_call_after_a_free_layer_voids_the_estimate(read: Read) -> None:
    net = read("InPython", ("InPython", InPython)).assume_free({"ReLU": None})
    assert short(net, "onnxruntime").steered == [
        Steered("relu1", "mid", "InPython", "it runs in Python, and its time may depend on values")
    ]


PEAKS = Peaks(1e9, 1e8, "a formula")


def given(*costs: NodeCost) -> Profile:
    return Profile("net", "onnxruntime", 1, 0.005, 9, PEAKS, list(costs), True)


def cost(name: str, seconds: float, macs: int, size: int, where: str = "engine") -> NodeCost:
    return NodeCost((name,), ("Type",), where, 0, macs, [Part(name, "Op", 0.0, seconds, size)])


@pytest.mark.parametrize(
    ("macs", "size", "arithmetic", "bandwidth", "limit"),
    [
        (500_000, 20_000, 0.5, 0.2, "compute"),
        (100_000, 90_000, 0.1, 0.9, "memory"),
        (0, 90_000, None, 0.9, "memory"),
        (50_000, 5_000, 0.05, 0.05, "neither"),
        (0, 0, None, None, ""),
    ],
)
def test_limit_of_a_node(macs: int, size: int, arithmetic: float, bandwidth: float, limit: str) -> None:
    node = cost("n", 1e-3, macs, size)
    found = given(node)
    assert found.arithmetic(node) == pytest.approx(arithmetic)
    assert found.bandwidth(node) == pytest.approx(bandwidth)
    assert found.limit(node) == limit


def test_listing_is_sorted_and_fits_80_columns() -> None:
    names = ["a" * 60, "short", "b" * 70]
    found = given(*(cost(n, s, 123_456_789, 987_654_321) for n, s in zip(names, (0.1234, 4.5, 0.01))))
    shown = lines(found, 80)
    assert max(map(len, shown)) <= 80
    assert [line.split()[0][:2] for line in shown[2:5]] == ["sh", "aa", "bb"]
    assert "97.1%" in shown[2]  # of 4.6334 s
    assert "peaks: 1 GMAC/s, 100 MB/s (a formula)" in " ".join(shown)


def test_trace_has_one_event_per_part_in_computing_order() -> None:
    first, second = cost("a", 0.002, 0, 8), cost("b", 0.001, 0, 4, "native")
    second.parts = [Part("b", "Op", 0.002, 0.001, 4)]
    events = json.loads(json.dumps(given(first, second).trace()))["traceEvents"]
    assert [e["args"]["name"] for e in events if e["ph"] == "M"] == ["engine", "native"]
    timed = [(e["name"], e["cat"], e["ts"], e["dur"]) for e in events if e["ph"] == "X"]
    assert timed == [("a", "engine", 0.0, pytest.approx(2000)), ("b", "native", pytest.approx(2000), 1000)]


def event(name: str, start: int, duration: int, **args: str) -> dict[str, Any]:
    return {"cat": "Node", "ph": "X", "name": name, "ts": start, "dur": duration, "args": args}


def test_onnxruntime_profile_is_read_by_run() -> None:
    def run(start: int, duration: int) -> list[dict[str, Any]]:
        sizes = {"activation_size": "100", "parameter_size": "20", "output_size": "3", "op_name": "Conv"}
        return [
            event("c_kernel_time", start + 2, duration, node_index="7", **sizes),
            {**event("model_run", start, duration + 9), "cat": "Session"},
        ]

    (node,) = _nodes([*run(0, 50), *run(100, 30), *run(200, 20)], skipped=1)
    assert (node.name, node.operation, node.bytes, node.times) == ("c", "Conv", 123, [30, 20])


def test_openvino_counters_exclude_runs_before_the_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds: dict[str, float] = {}
    monkeypatch.setattr("anylayer.engines._openvino_profile._counters", lambda *given: seconds.update(given[2]))
    counts = PerformanceCounts()
    counts.model = counts.graph = None
    monkeypatch.setattr(counts, "_means", lambda: {"n": 0.010})
    counts.reset(2)  # 2 runs of 10 ms
    monkeypatch.setattr(counts, "_means", lambda: {"n": 0.004})
    _, mean = counts.counters([0.002, 0.002, 0.004, 0.004, 0.002, 0.002, 0.004, 0.004])  # 10 runs, 40 ms in all
    assert seconds == {"n": pytest.approx(0.0025)}
    assert mean == pytest.approx(0.003)


def test_names_of_layers_are_read_in_any_locale(tmp_path: Path) -> None:
    (tmp_path / "net.prototxt").write_text(
        'input: "data" input_shape { dim: 1 dim: 2 dim: 4 dim: 4 }\n'
        'layer { name: "größe" type: "Convolution" bottom: "data" top: "y" '
        "convolution_param { num_output: 2 kernel_size: 3 } }\n",
        "utf-8",
    )
    words = ["profile", "net.prototxt", "--random-weights", "-e", "onnxruntime", "--seconds", "0.01"]
    done = subprocess.run(
        [sys.executable, "-m", "anylayer", *words],
        cwd=tmp_path,
        env={**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert "größe" in done.stdout
