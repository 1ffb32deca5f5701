"""The engines that "auto" accepts, and what it does when the chosen engine stops."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import anylayer
from anylayer.compile.plan import Plan
from anylayer.errors import EngineError
from anylayer.network import Array
from anylayer.runtime import auto
from anylayer.runtime import run as run_file
from anylayer.runtime.choice import agree, trusted
from anylayer.runtime.compilation import Compilation
from anylayer.runtime.kept import ALWAYS_MEASURE

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
Function = Callable[[Array], Any]


def engine(function: Function) -> Any:
    """Return an engine that computes a function of one array."""
    return lambda arrays: {"y": np.asarray(function(arrays[0]))}


def choose(definition: Function, **functions: Function) -> tuple[list[str], dict[str, str]]:
    return trusted({name: engine(f) for name, f in functions.items()}, [X], engine(definition))


def test_engines_that_agree_are_not_compared_with_numpy() -> None:
    def never(arrays: Sequence[Array]) -> Any:
        raise AssertionError

    runs = {"a": engine(lambda x: x * 2), "b": engine(lambda x: x * np.float32(2.00001))}
    assert trusted(runs, [X], never) == (["a", "b"], {})


@pytest.mark.parametrize("right", ["a", "b"])
def test_numpy_decides_between_engines(right: str) -> None:
    functions: dict[str, Function] = {"a": lambda x: x * 3, "b": lambda x: x * 3}
    functions["b" if right == "a" else "a"] = lambda x: x * 3 + np.float32(0.01)
    kept, wrong = choose(lambda x: x * 3, **functions)
    assert kept == [right]
    assert list(wrong.values()) == ["output 'y' differs from NumPy (largest difference 0.01, largest value 3)"]


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        (lambda x: x[:2], "shape (2, 4), expected (3, 4)"),
        (lambda x: np.where(x > 0.9, np.nan, x), "other values are NaN"),
        (lambda x: np.where(x > 0.9, np.inf, x), "largest difference inf, largest value 1"),
    ],
)
def test_difference_of_an_engine_is_described(wrong: Function, text: str) -> None:
    kept, found = choose(lambda x: x, a=lambda x: x, b=wrong)
    assert kept == ["a"] and found == {"b": f"output 'y' differs from NumPy ({text})"}


def test_integers_must_be_equal() -> None:
    kept, found = choose(lambda x: [7, 8], a=lambda x: [7, 8], b=lambda x: [7, 9])
    assert kept == ["a"] and found == {"b": "output 'y' differs from NumPy (1 of 2 values)"}


def test_nan_matches_nan_of_numpy() -> None:
    have = np.array([np.nan, np.inf, -np.inf, 1], np.float32)
    assert agree({"y": have.copy()}, {"y": have})
    assert not agree({"y": np.nan_to_num(have)}, {"y": have})


def test_difference_at_a_jump_is_accepted() -> None:
    """The threshold is a value of the noise itself, so last bits decide the output."""
    edge = X[1, 2]
    kept, wrong = choose(lambda x: x >= edge, a=lambda x: x >= edge, b=lambda x: x > edge)
    assert kept == ["a", "b"] and wrong == {}


def test_no_engine_is_excluded_where_all_differ_from_numpy() -> None:
    kept, wrong = choose(lambda x: x * 5, a=lambda x: x, b=lambda x: x * 2)
    assert kept == ["a", "b"] and wrong == {}


def test_stopping_engine_is_skipped() -> None:
    def stops(x: Array) -> Any:
        raise EngineError("engine 'b' failed")

    assert choose(lambda x: x, a=lambda x: x, b=stops) == (["a"], {})
    with pytest.raises(EngineError, match="engine 'b' failed"):
        choose(lambda x: x, b=stops)


# ----------------------------------------------------------------- whole networks


def network(folder: Path, op: str, dtype: int) -> anylayer.Net:
    """Read a network of one operator of two inputs."""
    infos = [helper.make_tensor_value_info(n, dtype, [3]) for n in ("x", "y", "z")]
    graph = helper.make_graph([helper.make_node(op, ["x", "y"], ["z"])], "g", infos[:2], infos[2:])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)
    (folder / "n.onnx").write_bytes(model.SerializeToString())
    return anylayer.read(folder / "n.onnx")


class Doctored:
    """OpenVINO with all outputs multiplied by a factor."""

    PRECISIONS = ("float32",)

    def compile(self, graph: Any, threads: int | None = None, precision: str = "float32") -> Any:
        from anylayer.engines.openvino import compile as build

        program = build(graph, threads)
        return lambda inputs, out=None: [y * np.float32(1.01) for y in program(inputs, out)]


@pytest.mark.needs("openvino")
def test_auto_warns_of_an_inaccurate_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    load = run_file.load_engine
    monkeypatch.setattr(run_file, "load_engine", lambda n: Doctored() if n == "openvino" else load(n))
    text = r"engine 'openvino' is not used: output 'z' differs from NumPy .*. anylayer verify --engine"
    with pytest.warns(UserWarning, match=text):
        model = network(tmp_path, "Add", TensorProto.FLOAT).compile("auto")
    assert model.engine == "onnxruntime" and model.timings == {}


@pytest.mark.needs("openvino")
def test_auto_continues_on_another_engine_where_the_chosen_one_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from anylayer.runtime import auto as auto_file

    monkeypatch.setattr(auto_file, "_measure", lambda runners, plan: {n: float(n != "openvino") for n in runners})
    model = network(tmp_path, "Add", TensorProto.INT64).compile("auto")
    assert model.engine == "openvino"
    x, y = np.array([2**40, 1, 2]), np.array([1, 1, 1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model({"x": x, "y": y})["z"].tolist() == [2**40 + 1, 2, 3]
    assert model.engine == "onnxruntime"
    buffer = np.zeros(3, np.int64)
    again = network(tmp_path, "Add", TensorProto.INT64).compile("auto")
    assert again({"x": x, "y": y}, out={"z": buffer})["z"] is buffer and buffer[0] == 2**40 + 1
    with pytest.raises(EngineError, match=r"input 'x' holds 1099511627776"):
        network(tmp_path, "Add", TensorProto.INT64).compile("openvino")({"x": x, "y": y})


def test_auto_measures_again_for_much_larger_inputs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenVINO is the fastest from 200 values on."""
    compiled: list[tuple[int, str]] = []
    measured: list[int] = []

    def runner(compilation: Compilation, plan: Plan, engine: str) -> run_file.PlanRunner:
        compiled.append((values_of(plan), engine))
        return make_runner(compilation, plan, engine)

    def measure(runners: Any, plan: Plan) -> dict[str, float]:
        measured.append(values_of(plan))
        return {"onnxruntime": 2.0, "openvino": 1.0 if measured[-1] >= 200 else 3.0}

    make_runner = Compilation.runner
    monkeypatch.setattr(Compilation, "runner", runner)
    monkeypatch.setattr(auto, "_measure", measure)
    monkeypatch.setenv(ALWAYS_MEASURE, "1")
    path = tmp_path / "m.prototxt"
    path.write_text("""
        layer { name: "data" type: "Input" top: "data" input_param { shape { dim: [1, 50] } } }
        layer { name: "exp" type: "Exp" bottom: "data" top: "exp" }
    """)
    model = anylayer.read(path).compile("auto")
    del compiled[:]
    for batch in (7, 8, 9, 2, 3):
        x = np.linspace(-1, 1, 50 * batch, dtype=np.float32).reshape(batch, 50)
        np.testing.assert_allclose(model(x)["exp"], np.exp(x), rtol=1e-5)
    assert measured == [50, 400]
    later = [(values, engine) for values, engine in compiled if values != 400]
    assert later == [(350, "onnxruntime"), (450, "openvino"), (100, "onnxruntime"), (150, "openvino")]
    assert model.engine == "openvino"


def values_of(plan: Plan) -> int:
    return sum(int(np.prod(kind.shape)) for kind in plan.inputs.values())
