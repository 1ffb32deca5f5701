"""Custom layers on an engine that compiles code for them: when "auto" uses it, and what it computes then."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.engines import cpp
from anylayer.errors import EngineError
from anylayer.runtime import auto as auto_file
from anylayer.runtime import pairs
from tests.loops.harness import needs_compiler

pytestmark = [needs_compiler, pytest.mark.needs("openvino")]

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 34 dim: 34 } } }
layer { name: "conv" type: "Convolution" bottom: "data" top: "conv"
        convolution_param { num_output: 16 kernel_size: 3 stride: 2 } }
layer { name: "wide" type: "Wide" bottom: "conv" top: "wide" }
layer { name: "last" type: "Convolution" bottom: "wide" top: "last"
        convolution_param { num_output: 2 kernel_size: 1 } }
"""
X = np.random.default_rng(0).standard_normal((1, 3, 34, 34)).astype(np.float32)
WHOLE = {"onnxruntime": 10.0, "openvino": 11.0}


class Wide:
    """Repeat rows and columns, with a chain of operations on elements."""

    times = 8

    def __init__(self, params: Any, blobs: Any) -> None:
        pass

    def forward(self, inputs: Any) -> Any:
        x = np.repeat(np.repeat(inputs[0], self.times, axis=2), self.times, axis=3)
        return [np.maximum(x * 2 + 1, 0) * x]


class Narrow(Wide):
    """A layer of few elements."""

    times = 1


Timed = Callable[..., None]


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Timed:
    """A function that sets what is measured: of the layer alone on each engine, and of the plan in parts, compared
    with one engine."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def set_(layer: Mapping[str, float], *ratios: float) -> None:
        ratio = {str(i): r for i, r in enumerate((1.0, *(ratios or (0.5, 0.6))))}

        def measured(calls: Mapping[str, Any], seconds: float = 1.0) -> dict[str, float]:
            for call in calls.values():
                call()
            return {n: ratio[n] if "0" in calls else layer[n] for n in calls}

        monkeypatch.setattr(auto_file, "_measure", lambda runners, plan: {n: WHOLE[n] for n in runners})
        monkeypatch.setattr(auto_file, "timed_in_turns", measured)
        monkeypatch.setattr(pairs, "timed_in_turns", measured)

    return set_


def net(folder: Path, cls: type = Wide) -> anylayer.Net:
    (folder / "net.prototxt").write_text(NET)
    return anylayer.read(folder / "net.prototxt", layers={"Wide": cls}).fill(0)


SLOW = {"onnxruntime": 4.0, "openvino": 4.0, "cpp": 1.0}


def test_faster_layer_runs_on_the_engine_that_compiles_it(tmp_path: Path, timed: Timed) -> None:
    timed(SLOW)
    read = net(tmp_path)
    model = read.compile("auto")
    assert model.parts == [("onnxruntime", ["conv"]), ("cpp", ["wide"]), ("onnxruntime", ["last"])]
    assert model.engine == "onnxruntime" and model.timings == {**WHOLE, "onnxruntime+cpp": 5.0}
    want = read.compile("numpy")(X)["last"]
    assert np.abs(model(X)["last"] - want).max() < 1e-5 * np.abs(want).max()


def test_rest_of_the_network_moves_to_the_engine_that_is_faster_without_the_layer(
    tmp_path: Path, timed: Timed
) -> None:
    timed({"onnxruntime": 1.5, "openvino": 9.0, "cpp": 1.0}, 0.9, 0.3)
    model = net(tmp_path).compile("auto")
    assert model.parts == [("openvino", ["conv"]), ("cpp", ["wide"]), ("openvino", ["last"])]
    assert model.engine == "onnxruntime" and model.timings["openvino+cpp"] == 3.0


def test_whole_network_of_one_layer_runs_there(tmp_path: Path, timed: Timed) -> None:
    timed({"onnxruntime": 10.0, "openvino": 11.0, "cpp": 1.0})
    (tmp_path / "one.prototxt").write_text(
        NET.strip().splitlines()[0] + '\nlayer { name: "wide" type: "Wide" bottom: "data" top: "wide" }'
    )
    read = anylayer.read(tmp_path / "one.prototxt", layers={"Wide": Wide})
    model = read.compile("auto")
    assert model.parts == [("cpp", ["wide"])] and model.timings["cpp"] == 5.0
    assert np.array_equal(model(X)["wide"], read.compile("numpy")(X)["wide"])


def test_later_shapes_are_not_compiled(tmp_path: Path, timed: Timed, monkeypatch: pytest.MonkeyPatch) -> None:
    timed(SLOW)
    read = net(tmp_path)
    model = read.compile("auto")
    monkeypatch.setattr(cpp, "library", lambda *words: pytest.fail("the compiler is called"))
    x = np.random.default_rng(1).standard_normal((1, 3, 50, 40)).astype(np.float32)
    want = read.compile("numpy")(x)["last"]
    assert np.abs(model(x)["last"] - want).max() < 1e-5 * np.abs(want).max()
    assert [engine for engine, _ in model.parts] == ["onnxruntime", "cpp", "onnxruntime"]


@pytest.mark.parametrize(
    ("layer", "ratio"),
    [
        ({**SLOW, "cpp": 3.99999}, 0.5),  # what the cuts cost
        (SLOW, 0.995),
        ({"onnxruntime": 0.1, "openvino": 0.1, "cpp": 0.01}, 0.5),  # a small share of the network's time
    ],
)
def test_one_engine_is_kept_where_that_is_not_faster(
    layer: dict[str, float], ratio: float, tmp_path: Path, timed: Timed
) -> None:
    timed(layer, ratio, ratio)
    model = net(tmp_path).compile("auto")
    assert model.parts == [] and model.timings == WHOLE


@pytest.mark.parametrize("how", ["light", "exact", "no compiler", "refused"])
def test_compiler_is_not_called_for_nothing(
    how: str, tmp_path: Path, timed: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(SLOW)
    if how == "no compiler":
        monkeypatch.setenv("CXX", "no-such-compiler")
    if how == "refused":

        def refused(*words: Any) -> Any:
            raise EngineError("engine 'cpp' refuses the graph")

        monkeypatch.setattr(cpp, "_generate", refused)
    monkeypatch.setattr(cpp, "library", lambda *words: pytest.fail("the compiler is called"))
    read = net(tmp_path, Narrow if how == "light" else Wide)
    assert read.compile("auto", exact=how == "exact").parts == []


def test_error_in_the_layer_leads_to_a_single_engine(
    tmp_path: Path, timed: Timed, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed(SLOW)
    read = net(tmp_path)
    model = read.compile("auto")

    def stops(*arguments: Any) -> Any:
        raise EngineError("engine 'cpp' stops")

    monkeypatch.setattr(cpp.CppProgram, "__call__", stops)
    want = read.compile("numpy")(X)["last"]
    assert np.abs(model(X)["last"] - want).max() < 1e-5 * np.abs(want).max()
    assert model.parts == [] and model.engine == "onnxruntime"
