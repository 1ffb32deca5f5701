"""A compiled model at many sizes: one program for every size, or one per size where that is not possible."""

from __future__ import annotations

import tracemalloc
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import anylayer
from anylayer.errors import EngineError
from anylayer.network import TensorType
from anylayer.runtime.compilation import key_of_arrays
from anylayer.runtime.open import OpenProgram, varied_sizes
from tests.engine_names import GENERAL
from tests.readers.onnx.files import model, value

PROTOTXT = """
name: "sizes"
input: "data" input_shape { dim: 1 dim: 2 dim: 20 dim: 24 }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
  convolution_param { num_output: 3 kernel_size: 3 stride: 2 pad: 1 } }
layer { name: "slopes" type: "PReLU" bottom: "conv" top: "slopes" }
layer { name: "pool" type: "Pooling" bottom: "slopes" top: "pool"
  pooling_param { pool: MAX kernel_size: 2 stride: 2 } }
layer { name: "out" type: "Mine" bottom: "pool" bottom: "data" top: "out" }
"""
SIZES = [(1, 2, 12 + 3 * i, 50 - 2 * i) for i in range(12)]


def grown(x: Any, like: Any) -> Any:
    rows = np.arange(like.shape[2]) * x.shape[2] // like.shape[2]
    columns = np.arange(like.shape[3]) * x.shape[3] // like.shape[3]
    return x[:, :, rows][:, :, :, columns]


class Grow:
    """Repeat the rows and columns of the first input to the size of the second."""

    def __init__(self, params: Any, blobs: Any) -> None: ...

    def getMemoryShapes(self, inputs: Any) -> Any:
        (n, c, _, _), (_, _, h, w) = inputs
        return [[n, c, h, w]]

    def forward(self, inputs: Any) -> Any:
        return [grown(*inputs)]


class Wide(Grow):
    """Change the sign for inputs that are higher than wide."""

    def forward(self, inputs: Any) -> Any:
        y = grown(*inputs)
        return [y if y.shape[3] >= y.shape[2] else -y]


class Looping(Grow):
    """Add the rows in a loop that a trace unrolls."""

    def forward(self, inputs: Any) -> Any:
        y = grown(*inputs)
        total = y[:, :, :1]
        for i in range(1, y.shape[2]):
            total = total + y[:, :, i : i + 1]
        return [(total + y * np.float32(0)) / np.float32(len(y[0, 0]))]


class ByType:
    """Return zeros for a traced array: a fault that the tracer cannot see."""

    def __init__(self, params: Any, blobs: Any) -> None: ...

    def forward(self, inputs: Any) -> Any:
        x = inputs[0] + 0
        return [x if type(x) is np.ndarray else self.other(x)]

    def other(self, x: Any) -> Any:
        return x * 0


class SquareByType(ByType):
    """Return squares for a traced array."""

    def other(self, x: Any) -> Any:
        return x * x


@pytest.mark.parametrize("cls", [ByType, SquareByType])
@pytest.mark.parametrize("dtype", ["int64", "uint8"])
def test_wrong_trace_of_integers_is_not_used_for_open_sizes(tmp_path: Path, cls: type, dtype: str) -> None:
    """The comparison with NumPy would pass on zeros, and that of the square on 0 and 1."""
    x = (np.arange(10).reshape(1, 2, 5) + 3).astype(dtype)
    nodes = [helper.make_node("Mine", ["x"], ["y"], domain="d")]
    path = tmp_path / "net.onnx"
    path.write_bytes(model(nodes, [value("x", [1, 2, 5], dtype)], ["y"], domains=["d"]).SerializeToString())
    net = anylayer.read(path, layers=[("Mine", cls)])
    for shapes in (None, {"x": ("N", 2, "W")}):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = net.compile("onnxruntime", shapes=shapes, threads=1)
            np.testing.assert_array_equal(made({"x": x})["y"], x)


def network(tmp_path: Path, cls: type = Grow) -> Any:
    path = tmp_path / "net.prototxt"
    path.write_text(PROTOTXT)
    return anylayer.read(path, layers=[("Mine", cls)]).fill()


def array(shape: tuple[int, ...]) -> np.ndarray[Any, Any]:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def assert_right(net: Any, model: Any, shapes: Any) -> None:
    """Assert that the model computes what the layers compute in NumPy, at each shape of the input."""
    definition = net.compile("numpy")
    for shape in shapes:
        x = array(shape)
        np.testing.assert_allclose(model(x)["out"], definition(x)["out"], atol=1e-5)


def counted(model: Any, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that gets the types for which the model compiles a program of their own."""
    compiled: list[Any] = []
    compile_ = model._compile
    monkeypatch.setattr(model, "_compile", lambda key: compiled.append(key) or compile_(key))
    return compiled


@pytest.mark.parametrize("engine", GENERAL)
def test_one_program_serves_open_sizes(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    net = network(tmp_path)
    model = net.compile(engine, shapes={"data": ("N", 2, "H", "W")})
    compiled = counted(model, monkeypatch)
    assert_right(net, model, [*SIZES, (3, 2, 17, 31)])
    assert not compiled and model.open_sizes is not None
    assert model.inputs == {"data": None}


@pytest.mark.parametrize("engine", GENERAL)
def test_model_compiles_one_program_after_eight_sizes(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(engine, reason=f"{engine} is not installed")
    net = network(tmp_path)
    model = net.compile(engine)
    compiled = counted(model, monkeypatch)
    assert_right(net, model, SIZES)
    assert len(compiled) == 7 and model.open_sizes is not None  # the file's own size is the first of the eight
    assert model.inputs == {"data": TensorType.of((1, 2, 20, 24), np.float32)}


@pytest.mark.parametrize("fastest", GENERAL)
def test_auto_takes_the_engine_that_is_fastest_at_new_sizes(
    tmp_path: Path, fastest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("openvino", reason="openvino is not installed")
    shapes: list[list[Any]] = []

    def measured(calls: Any, known: Any, new: Any) -> dict[str, float]:
        shapes.append([types[0].shape for types in (known, *new)])
        return {name: float(name != fastest) for name in calls}

    monkeypatch.setattr("anylayer.runtime.open.timed_at_new_sizes", measured)
    net = network(tmp_path)
    model = net.compile("auto")
    monkeypatch.setattr(model, "engine", "onnxruntime")  # the engine of single sizes
    assert_right(net, model, SIZES)
    assert model.open_sizes is not None and model.engine == fastest
    ((known, *new),) = shapes
    seen = sorted([(1, 2, 20, 24), *SIZES[:8]], key=np.prod)
    mean = np.mean([np.prod(shape) for shape in seen])
    assert np.prod(known) >= max(map(np.prod, new)) and new == sorted(
        new, key=lambda shape: abs(np.prod(shape) - mean)
    )
    assert len({*new} - {*seen}) == len(new) > 5  # engines may have kept code for sizes that were seen
    declared = net.compile("auto", shapes={"data": (1, 2, "H", "W")})
    assert declared.engine == fastest and len({*shapes[1]}) == len(shapes[1]) > 3


@pytest.mark.parametrize(("seconds", "opened"), [(0.0, True), (1e9, False)])
def test_program_for_every_size_must_be_faster_than_one_per_size(
    tmp_path: Path, seconds: float, opened: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "anylayer.runtime.open.timed_at_new_sizes", lambda calls, *_: dict.fromkeys(calls, seconds)
    )
    net = network(tmp_path)
    model = net.compile("onnxruntime")
    assert_right(net, model, SIZES)
    assert (model.open_sizes is not None) is opened


@pytest.mark.parametrize(("seconds", "replaces"), [(1.0, True), (1.0 + 1e-9, False)])
def test_program_for_every_size_that_is_as_fast_replaces_the_others(
    tmp_path: Path, seconds: float, replaces: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("anylayer.runtime.open._compare", lambda program, references: 1.0)
    monkeypatch.setattr(
        "anylayer.runtime.open.timed_at_new_sizes", lambda calls, *_: dict.fromkeys(calls, seconds)
    )
    net = network(tmp_path)
    model = net.compile("onnxruntime")
    assert_right(net, model, SIZES)
    compiled = counted(model, monkeypatch)
    assert_right(net, model, SIZES)
    runs_on = model._runner(key_of_arrays([array(SIZES[0])]))
    assert isinstance(runs_on, OpenProgram) is replaces and not compiled


def test_sizes_that_a_condition_excludes_get_their_own_program(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network(tmp_path, Wide)
    model = net.compile("onnxruntime", shapes={"data": (1, 2, "H", "W")})
    compiled = counted(model, monkeypatch)
    assert_right(net, model, [(1, 2, 12, 30), (1, 2, 30, 12), (1, 2, 30, 12)])
    assert [key[0][0] for key in compiled] == [(1, 2, 30, 12)]


def test_network_without_a_program_for_every_size_is_compiled_per_size(tmp_path: Path) -> None:
    net = network(tmp_path, Looping)
    with pytest.warns(
        UserWarning, match=r"no program for every size, so each set of input shapes is compiled: .*'out'"
    ):
        model = net.compile("onnxruntime", shapes={"data": (1, 2, "H", "W")})
    assert model.open_sizes is None
    assert_right(net, model, SIZES[:2])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unasked = net.compile("onnxruntime")
        assert_right(net, unasked, SIZES)
    assert unasked.open_sizes is None


def test_size_that_the_engine_refuses_runs_on_a_program_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = network(tmp_path)
    model = net.compile("onnxruntime", shapes={"data": (1, 2, "H", "W")})

    def stopping(*_: Any) -> Any:
        raise EngineError("engine 'onnxruntime' failed")

    monkeypatch.setattr(model._open.runner, "_whole", stopping)
    compiled = counted(model, monkeypatch)
    assert_right(net, model, [SIZES[0], SIZES[0]])
    assert len(compiled) == 1


def test_wrong_program_for_every_size_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("anylayer.runtime.open.agree", lambda got, want: False)
    with pytest.warns(UserWarning, match=r"the program for every size computes something else at \(1, 2, "):
        model = network(tmp_path).compile("onnxruntime", shapes={"data": (1, 2, "H", "W")})
    assert model.open_sizes is None


def test_outputs_of_open_sizes_are_written_to_buffers(tmp_path: Path) -> None:
    net = network(tmp_path)
    model = net.compile("onnxruntime", shapes={"data": (1, 2, "H", "W")})
    x, buffer = array(SIZES[0]), np.zeros((1, 3, *SIZES[0][2:]), np.float32)
    assert model(x, out={"out": buffer})["out"] is buffer
    np.testing.assert_allclose(buffer, net.compile("numpy")(x)["out"], atol=1e-5)
    with pytest.raises(anylayer.AnyLayerError, match=r"out\['out'\] must be float32"):
        model(x, out={"out": buffer[:, :2].copy()})


def test_memory_does_not_grow_with_the_number_of_sizes(tmp_path: Path) -> None:
    model = network(tmp_path).compile("onnxruntime", shapes={"data": (1, 2, "H", "W")})
    monitored = [array((1, 2, 12 + i % 60, 12 + i // 60)) for i in range(1400)]
    for x in monitored[:100]:
        model(x)
    tracemalloc.start()
    for x in monitored:
        model(x)
    snapshot = tracemalloc.take_snapshot()
    tracemalloc.stop()
    # Only lines of anylayer: the interpreter's table of strings may be enlarged at any time, by several megabytes.
    ours = snapshot.filter_traces([tracemalloc.Filter(True, "*/anylayer/*")])
    assert 0 < sum(trace.size for trace in ours.traces) < 1 << 20 and len(model._open.known) <= 1024


def test_axes_that_are_always_equal_share_a_size() -> None:
    f4 = np.dtype(np.float32)
    keys = [(((1, 3, n, n), f4), ((n, 2 * n), f4)) for n in (4, 6)]
    sizes = varied_sizes(["a", "b"], keys)
    assert sizes is not None
    assert [list(map(str, s)) for s in sizes.shapes.values()] == [["1", "3", "S0", "S0"], ["S0", "S1"]]
    assert varied_sizes(["a"], [(((1, 2), f4),), (((1, 2, 3), f4),)]) is None
    assert varied_sizes(["a"], [(((1, 2), f4),), (((1, 2), f4),)]) is None


@pytest.mark.parametrize("engine", GENERAL)
def test_input_that_was_resized_in_place_has_its_new_size(engine: str, tmp_path: Path) -> None:
    path = tmp_path / "mean.prototxt"
    path.write_text(
        'input: "data" input_shape { dim: 1 dim: 64 dim: 9 dim: 9 }\n'
        'layer { name: "mean" type: "Pooling" bottom: "data" top: "mean"\n'
        "  pooling_param { pool: AVE global_pooling: true } }"
    )
    model = anylayer.read(path).compile(engine, shapes={"data": (1, 64, "H", "W")})
    x = np.ones((1, 64, 40, 40), np.float32)
    for shape in (x.shape, (1, 64, 20, 40), (1, 64, 90, 90)):
        x.resize(shape, refcheck=False)
        x[...] = shape[2]
        np.testing.assert_allclose(model({"data": x})["mean"], np.full((1, 64, 1, 1), shape[2]), rtol=1e-6)
