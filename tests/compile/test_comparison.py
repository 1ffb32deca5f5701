"""A trace of many operators that is slower than NumPy is not used, and the message names the line."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.compile import comparison
from anylayer.engines import load_engine
from anylayer.errors import TraceError
from anylayer.graph import Graph
from anylayer.network import TensorType
from anylayer.tracing import trace_checked
from tests.engine_names import GENERAL

NET = """
name: "net" input: "x" input_shape { dim: 8 dim: 16 }
layer { name: "loop" type: "Loop" bottom: "x" top: "y" }
"""


class Loop:
    """Writes one element at a time."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        x = inputs[0]
        y = np.zeros_like(x)
        for i in range(8):
            for j in range(16):
                y[i, j] = 2 * x[i, j] + 1
        return [y]


@pytest.fixture
def net(tmp_path: Path) -> anylayer.Net:
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    return anylayer.read(path, layers={"Loop": Loop})


def taking(monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
    """Let the timed functions take these seconds: `forward` first, then the engine."""
    times = iter(seconds)
    monkeypatch.setattr(comparison, "_seconds", lambda function, inputs: next(times))


class Rows:
    """Returns an array of a list of rows, which is empty for some inputs."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        rows = []
        for i in np.where(inputs[0][:, 0] > 3)[0]:
            rows.append(inputs[0][i] * 2)
        return [np.array(rows)]


def test_empty_list_has_the_axes_of_its_elements(tmp_path: Path) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = anylayer.read(path, layers={"Loop": Rows}).compile(engine="onnxruntime")
    x = np.arange(128, dtype=np.float32).reshape(8, 16)
    assert model(np.zeros_like(x))["y"].shape == (0, 16)
    np.testing.assert_array_equal(model(x)["y"], 2 * x[1:])


def test_slower_trace_becomes_a_host_call(net: anylayer.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, 83e-6, 471e-6)
    message = (
        r"layer 'loop' \(Loop\) runs in Python: test_comparison.py:\d+: \d+ operators were recorded, \d+ of "
        r"them at this line. They take 471 microseconds, and NumPy takes 83; compute whole slices instead of "
        r"single elements"
    )
    with pytest.warns(UserWarning, match=message):
        model = net.compile(engine="onnxruntime")
    assert (model(np.ones((8, 16), np.float32))["y"] == 3).all()


def test_faster_trace_is_used(net: anylayer.Net, monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch, 400e-6, 471e-6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = net.compile(engine="onnxruntime")
    assert (model(np.ones((8, 16), np.float32))["y"] == 3).all()


def test_short_trace_is_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taking(monkeypatch)  # a call would raise StopIteration

    class Twice(Loop):
        def forward(self, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
            return [2 * inputs[0]]

    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        anylayer.read(path, layers={"Loop": Twice}).compile(engine="onnxruntime")


def test_nan_on_noise_is_named(tmp_path: Path) -> None:
    class Largest(Loop):
        def forward(self, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
            return [np.sqrt(inputs[0]).max(axis=1)]

    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    message = r"output 0 of forward on noise .*\(other values are NaN\): engines do not promise NumPy's NaN"
    with pytest.warns(UserWarning, match=message):
        anylayer.read(path, layers={"Loop": Largest}).compile(engine="onnxruntime")


class Halved:
    """Rounds to float16 on the way, which some engines leave out."""

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: list[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        return [np.log1p(np.abs(inputs[0]).astype(np.float16)).astype(np.float32)]


@pytest.mark.parametrize("engine", GENERAL)
def test_rounding_of_intermediate_float16_values_is_allowed(tmp_path: Path, engine: str) -> None:
    path = tmp_path / "net.prototxt"
    path.write_text(NET)
    model = anylayer.read(path, layers={"Loop": Halved}).compile(engine)
    assert not model.host_calls
    x = np.random.default_rng(0).standard_normal((8, 16)).astype(np.float32)
    want = np.log1p(np.abs(x).astype(np.float16)).astype(np.float32)
    assert np.allclose(model(x)["y"], want, rtol=0, atol=2e-3 * want.max())


@pytest.mark.parametrize("at", [at for at, (scale, _) in enumerate(comparison.SELECTING) if scale])
def test_inputs_that_select_have_no_new_ties(at: int) -> None:
    noise = np.random.default_rng(0).standard_normal((6000, 5)).astype(np.float32)
    changed = comparison.selecting(noise, at)
    assert changed.shape == noise.shape and changed.dtype == np.float32
    assert len(np.unique(changed)) == len(np.unique(noise))
    assert (changed.ravel().argsort(kind="stable") == noise.ravel().argsort(kind="stable")).all()


def test_few_sums_of_inputs_that_select_are_equal() -> None:
    noise = np.random.default_rng(0).standard_normal((40, 2)).astype(np.float32)
    changed = comparison.selecting(noise, len(comparison.SELECTING) - 1)
    assert len(np.unique(changed.sum(axis=1))) == 40


def test_loop_is_recorded_if_another_engine_is_fast(monkeypatch: pytest.MonkeyPatch) -> None:
    def halved(arrays: list[Any]) -> list[Any]:
        x = arrays[0]
        while x.max() > 1:
            x = x * np.float32(0.5)
        return [x]

    types = [TensorType.of((3,))]
    graph = trace_checked(halved, types)
    assert [o.op for o in graph.ops].count("Loop") == 1 and len(graph.ops) < 20

    def compiler(graph: Graph) -> Any:
        return load_engine("onnxruntime").compile(graph, threads=1)

    taking(monkeypatch, 83e-6, 471e-6, 90e-6)
    comparison.compare_trace(graph, halved, types, compiler, compiler)
    taking(monkeypatch, 83e-6, 471e-6)
    with pytest.raises(TraceError, match="They take 471 microseconds, and NumPy takes 83"):
        comparison.compare_trace(graph, halved, types, compiler)
