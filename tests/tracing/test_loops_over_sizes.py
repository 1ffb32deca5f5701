"""Loops that run once per element of an open size, in written files at sizes that were not traced."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.errors import AnyLayerError, LayerError
from anylayer.graph.expressions import symbol
from anylayer.graph.guards import symbolic_trace
from anylayer.graph.symbolic import new_size
from anylayer.network import Array, TensorType
from anylayer.tracing import checked

Function = Callable[[Array], Any]
CASES: list[Function] = []
SIZES = (1, 2, 5, 130)
ROWS = 3


def case(function: Function) -> Function:
    """Add a function of an array (3, T) to the cases."""
    CASES.append(function)
    return function


@case
def last_state(x: Array) -> Any:
    h = np.zeros(x.shape[0], np.float32)
    for t in range(x.shape[1]):
        h = np.tanh(np.float32(0.5) * h + x[:, t])
    return h


@case
def all_states(x: Array) -> Any:
    h = np.zeros(x.shape[0], np.float32)
    states = []
    for t in range(x.shape[1]):
        h = np.tanh(np.float32(0.5) * h + x[:, t])
        states.append(h)
    return np.stack(states, axis=1), np.array(states)


@case
def backwards(x: Array) -> Any:
    h = np.zeros(x.shape[0], np.float32)
    for t in reversed(range(x.shape[1])):
        h = np.maximum(np.float32(0.5) * h, x[:, t])
    return h


@case
def backwards_by_two(x: Array) -> Any:
    h = np.zeros(x.shape[0], np.float32)
    for t in range(x.shape[1] - 1, -1, -2):
        h = np.maximum(np.float32(0.5) * h, x[:, t])
    return h


@case
def from_the_middle(x: Array) -> Any:
    h = np.zeros(x.shape[0], np.float32)
    for t in range(x.shape[1] // 2, x.shape[1]):
        h = np.float32(0.5) * h + x[:, t]
    return h


@case
def writes_columns(x: Array) -> Any:
    y = x.copy()
    for t in range(1, x.shape[1]):
        y[:, t] = np.float32(0.5) * y[:, t - 1] + x[:, t]
    return y


@case
def over_an_array(x: Array) -> Any:
    total = np.float32(0)
    for column in x.T:
        total = total + column.max()
    return total * x


@case
def with_decisions(x: Array) -> Any:
    best, at, peaks = np.float32(-9), 0, 0
    for t in range(x.shape[1]):
        value = x[:, t].sum()
        if value > best:
            best, at = value, t
        elif value < 0:
            peaks += 1
    return best, np.int64(at), np.int64(peaks)


@case
def pairs_of_arrays(x: Array) -> Any:
    total = np.float32(0)
    for k, (a, b) in enumerate(zip(x.T, x.T[::-1])):
        total = total + (a * b).sum() * k
    return total


@case
def rows_from_the_end(x: Array) -> Any:
    total = np.float32(0)
    for k, column in enumerate(reversed(x.T)):
        total = total * np.float32(0.5) + column.max() * k
    return total


@case
def in_a_comprehension(x: Array) -> Any:
    return np.stack([x[:, t] * 2 for t in range(x.shape[1])])


@case
def in_a_comprehension_with_a_test(x: Array) -> Any:
    return np.array(
        [x[0, t] - (x[1, t] if x[0, t] > x[2, t] else x[1, 0]) for t in range(x.shape[1]) if x[0, t] > 0]
    )


@pytest.mark.one_per("function")
@pytest.mark.parametrize("suffix", ["onnx", "xml"])
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_a_loop_over_an_open_size(function: Function, suffix: str, tmp_path: Path) -> None:
    file = tmp_path / f"loop.{suffix}"
    x = np.random.default_rng(2).standard_normal((ROWS, SIZES[-1])).astype(np.float32)
    anylayer.export(function, x[:, :6], path=file, shapes={"x": (ROWS, "T")})
    run = program(file)
    for size in SIZES:
        want = function(x[:, :size])
        wanted = list(want) if isinstance(want, tuple) else [want]
        for got, array in zip(run(x[:, :size]), wanted, strict=True):
            assert got.shape == np.shape(array)
            np.testing.assert_allclose(got, array, rtol=1e-5, atol=1e-5)


def program(file: Path) -> Callable[[Array], list[Any]]:
    """Return a function that runs a file in the engine itself."""
    if file.suffix == ".onnx":
        session = pytest.importorskip("onnxruntime").InferenceSession(file, providers=["CPUExecutionProvider"])
        return lambda x: list(session.run(None, {"x": x}))
    compiled = pytest.importorskip("openvino").Core().compile_model(file, "CPU")
    return lambda x: list(compiled([x]).values())


def in_a_generator(x: Array) -> Any:
    return np.stack(tuple(x[:, t] * 2 for t in range(x.shape[1])))


def test_a_generator_over_an_open_size_is_refused(tmp_path: Path) -> None:
    line = in_a_generator.__code__.co_firstlineno + 1
    rule = rf"test_loops_over_sizes.py:{line}: a loop runs once for each element of an open size"
    with pytest.raises(LayerError, match=rule):
        anylayer.export(
            in_a_generator, np.ones((ROWS, 6), np.float32), path=tmp_path / "x.onnx", shapes={"x": (3, "T")}
        )
    assert not [*tmp_path.iterdir()]


def test_code_is_not_traced_at_sizes_that_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array of (T, T, T, T) has 1.6e9 elements where T is 200, the second size that is tried here."""
    tried: list[int] = []
    monkeypatch.setattr(checked, "trace", lambda _, types, **__: tried.append(int(np.prod(types[0].shape))))
    for size, expected in ((3, [81, 1296]), (100, [])):
        with symbolic_trace({}, {"T": size}):
            types = [TensorType((new_size(size, symbol("T")),) * 4, np.dtype("f4"))]
            checked._loops_over_size(checked._Code(lambda inputs: inputs, types, "", None, None, True))
        assert tried == expected
        tried.clear()


def prints_into_a_buffer(x: Array) -> Any:
    buffer = io.StringIO()
    print(x.shape[1], file=buffer)
    return x * np.float32(buffer.getvalue())


def prints_for_a_person(x: Array) -> Any:
    print("columns:", x.shape[1])
    return x * np.float32(x.shape[1])


def test_a_size_printed_into_a_buffer_is_a_plain_number(tmp_path: Path) -> None:
    """The text can be read again, so that the size cannot be open; what a person reads leaves it open."""
    x, shapes = np.ones((ROWS, 6), np.float32), {"x": (3, "T")}
    with pytest.raises(AnyLayerError, match=r"test_loops_over_sizes\.py"):
        anylayer.export(prints_into_a_buffer, x, path=tmp_path / "x.onnx", shapes=shapes)
    assert not [*tmp_path.iterdir()]
    anylayer.export(prints_for_a_person, x, path=tmp_path / "y.onnx", shapes=shapes)
    np.testing.assert_array_equal(program(tmp_path / "y.onnx")(x[:, :2])[0], x[:, :2] * 2)
