"""Branches on data: every path is recorded, and compared with NumPy on inputs that take it."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer.compile.comparison import compare_trace
from anylayer.compile.selections import trace_with_selections
from anylayer.engines import load_engine
from anylayer.errors import EngineError, TraceError
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from anylayer.tracing import trace_checked
from tests.engine_names import program_of

Function = Callable[[Array], Any]
CASES: list[Function] = []


def case(function: Function) -> Function:
    """Add a function of an array (3, 4) to the cases."""
    CASES.append(function)
    return function


@case
def assigned_in_an_if(x: Array) -> Any:
    if x.max() > 1:
        y = x * 2
    else:
        y = x + 1
    return np.exp(-y).sum(axis=0)


@case
def three_in_a_row(x: Array) -> Any:
    y = x
    if x.max() > 1:
        y = y * 2
    if x.min() < -1:
        y = y + 3
    if not x.sum() > 0:
        y = -y
    return y, y.sum()


@case
def nested_with_operators(x: Array) -> Any:
    if x.max() > 1 and x.min() < -1:
        return x * 2
    if x.max() > 2 or x.sum() < 0:
        return x - 1
    return x if 0 < x.sum() < 3 else -x


@case
def smaller_of_two(x: Array) -> Any:
    return max(x[0, 0], x[1, 1]) * min(x.sum(), x.max(), x.min())


@case
def compared_with_itself(x: Array) -> Any:
    return x[5] if x[2, 0] < x[-1, 0] or x[2, 0] > x[-1, 0] else x * 2


@case
def element_of_an_array(x: Array) -> Any:
    return x * 2 if 1 in x.astype(np.int64) else x - 1


@case
def large_constant_of_each_call(x: Array) -> Any:
    window = np.hanning(3 * 1024).astype(np.float32).reshape(3, 1024)
    y = x.T @ window
    return y.sum() if y.max() > 1 else y.min()


@case
def helper_in_a_comprehension(x: Array) -> Any:
    def clipped(row: Array) -> Any:
        return row / row.sum() if row.sum() > 1 else row

    return np.stack([clipped(row) for row in x])


@case
def stops_a_loop(x: Array) -> Any:
    total = x[0] * 0
    for row in x:
        if row[0] > 1:
            break
        if row[1] < 0:
            continue
        total = total + row
    return total


@case
def fewer_rows(x: Array) -> Any:
    if x.max() > 1:
        return x[:2] * 2
    return x[:0] if x.sum() < 0 else x


@case
def written_in_place(x: Array) -> Any:
    y = x.copy()
    if x[0, 0] > 0:
        y[0] = 5
    else:
        y[:, 1] = x[:, 0] * 2
    return y


@case
def index_in_range_on_one_path(x: Array) -> Any:
    k = (x[0, 0] * 3).astype(np.int64)
    return x[k] if 0 <= k < 3 else x[0] * 0


@case
def other_value_if_nothing_is_selected(x: Array) -> Any:
    keep = np.where(x[:, 0] > 0)[0]
    if len(keep) == 0:
        return np.full(4, -1, np.float32)
    return x[keep].max(axis=0)


@case
def nothing_selected_twice(x: Array) -> Any:
    y = x[x[:, 0] > 0]
    if not len(y):
        return np.float32(-1)
    z = y[y[:, 1] > 0]
    return z.min() if z.shape[0] > 0 else np.float32(-2)


@case
def catches_an_empty_selection(x: Array) -> Any:
    keep = np.where(x[:, 0] > 0)[0]
    try:
        return x[keep[0]]
    except IndexError:
        return x[0] * 0


@case
def asks_the_mask(x: Array) -> Any:
    m = x[:, 0] > 0
    if not m.any():
        return np.zeros((0, 4), np.float32)
    y = x[m]
    return y[y[:, 1].argmax()][None]


@case
def compares_two_selections(x: Array) -> Any:
    y, w = x[x[:, 0] > 0], x[x[:, 1] > 0]
    if len(y) == 0 and len(w) == 0:
        return x[:1]
    return y if len(y) > len(w) else w


@case
def first_or_last(x: Array) -> Any:
    found = np.where(x[:, 0] > 0)[0]
    i = found[0] if found.size else -1
    return x[i]


@case
def at_least_two(x: Array) -> Any:
    y = x[x[:, 0] > 0]
    return y[:2] if len(y) >= 2 else np.zeros((2, 4), np.float32)


def inputs() -> list[Array]:
    """Return arrays on which each path of the cases is taken."""
    r = np.random.default_rng(3)
    noise = [r.standard_normal((3, 4)) * scale + shift for scale in (0.1, 1, 4) for shift in (-2, -0.3, 0, 0.3, 2)]
    return [x.astype(np.float32) for x in (*noise, np.zeros((3, 4)), np.ones((3, 4)))]


def traced(function: Function) -> Graph:
    """Return the checked trace of a function of one array."""

    def forward(arrays: list[Array]) -> list[Any]:
        result = function(*arrays)
        return list(result) if isinstance(result, tuple) else [result]

    def trace(types: Any) -> Graph:
        return trace_checked(forward, types)

    return trace_with_selections(trace, [TensorType((3, 4), np.dtype("f4"))])


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_every_path(function: Function) -> None:
    run = program_of(traced(function), "onnxruntime")
    for x in inputs():
        want = function(x)
        want = want if isinstance(want, tuple) else (want,)
        for got, w in zip(run([x]), map(np.asarray, want), strict=True):
            assert got.shape == w.shape and got.dtype == w.dtype
            np.testing.assert_allclose(got, w, rtol=1e-5, atol=1e-5)


def test_code_after_a_branch_is_recorded_once() -> None:
    assert [o.op for o in traced(assigned_in_an_if).ops].count("Exp") == 1


def test_paths_that_no_input_takes_are_named() -> None:
    def forward(arrays: list[Array]) -> list[Any]:
        x = arrays[0]
        if x.max() > 1:
            x = x * 2
        if x[0, 0] * 0 > 1:
            x = x * 3
        return [x]

    types = [TensorType((3, 4), np.dtype("f4"))]
    graph = trace_checked(forward, types)
    compare_trace(graph, forward, types, lambda g: load_engine("onnxruntime").compile(g, threads=1))
    line = forward.__code__.co_firstlineno + 4
    assert graph.notes == [
        f"no input that was tried takes the path after test_decisions.py:{line} (True); it was not compared with "
        "NumPy"
    ]


def test_a_path_that_is_taken_is_compared() -> None:
    def forward(arrays: list[Array]) -> list[Any]:
        return [arrays[0] * (2 if arrays[0].min() > 20 else 1)]

    def other(arrays: list[Array]) -> list[Any]:
        return [arrays[0] * (3 if arrays[0].min() > 20 else 1)]

    types = [TensorType((3, 4), np.dtype("f4"))]
    with pytest.raises(TraceError, match="output 0 of forward on noise differs from what was recorded"):
        compare_trace(
            trace_checked(forward, types), other, types, lambda g: load_engine("onnxruntime").compile(g, threads=1)
        )


def indexed(arrays: list[Array]) -> list[Any]:
    x = arrays[0]
    return [x * 2 if x[(x[0, 0] * 0.1).astype(np.int64), 0] > 0 else x]


def test_inputs_for_which_a_condition_fails_take_no_path() -> None:
    """The noise with a large summand gives an index out of range in the condition, where NumPy fails, too."""
    types = [TensorType((3, 4), np.dtype("f4"))]
    refused = []

    def compiler(graph: Graph) -> Any:
        program = load_engine("onnxruntime").compile(graph, threads=1)

        def run(inputs: list[Array]) -> Any:
            try:
                return program(inputs)
            except EngineError:
                refused.append(inputs)
                raise

        return run

    compare_trace(trace_checked(indexed, types), indexed, types, compiler)
    assert refused


def test_conditions_that_an_engine_refuses_become_a_host_call() -> None:
    def refuse(graph: Graph) -> Any:
        raise EngineError("no operator for the condition")

    types = [TensorType((3, 4), np.dtype("f4"))]
    with pytest.raises(TraceError, match="what decides for a path: no operator for the condition"):
        compare_trace(trace_checked(indexed, types), indexed, types, refuse)


class Toggles:
    """A class whose calls differ although two of them leave the state that was there."""

    flag = False

    def forward(self, x: Array) -> Any:
        y = x * 2 if x.max() > 1 else x
        self.flag = not self.flag
        return y * (1 if self.flag else 2)


class Keeps:
    """A class in which one path returns what another path has kept."""

    def forward(self, x: Array) -> Any:
        if not x.max() > 1:
            self.kept = x * 2
        return getattr(self, "kept", x)


def raises(x: Array) -> Any:
    if x.max() > 1:
        raise ValueError("too large")
    return x


def third_of_a_selection(x: Array) -> Any:
    y = x[x[:, 0] > 0]
    return y[2] if len(y) > 2 else x[0]


def other_rank(x: Array) -> Any:
    return x if x.max() > 1 else x.sum()


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (raises, 'raised "ValueError: too large" where the condition here is True'),
        (third_of_a_selection, "where the condition here is True, which a graph cannot do"),
        (other_rank, r"output 0 is float32\[3, 4\] where the condition here is true, and float32\[\] where"),
    ],
)
def test_refused_with_the_line(function: Function, rule: str) -> None:
    with pytest.raises(TraceError, match=rule) as caught:
        traced(function)
    lines, first = inspect.getsourcelines(function)
    places = re.findall(r"test_decisions\.py:(\d+)", str(caught.value))
    assert places and all(first <= int(line) < first + len(lines) for line in places)


@pytest.mark.parametrize(
    ("function", "rule"),
    [
        (Toggles().forward, "self.flag changes in every call"),
        (Keeps().forward, "traced array of an earlier call"),
    ],
)
def test_state_between_calls_is_refused(function: Function, rule: str) -> None:
    with pytest.raises(TraceError, match=rule):
        traced(function)


def test_only_a_try_around_the_index_makes_it_a_question() -> None:
    def inside(x: Array) -> Any:
        try:
            return x[(x[0, 0] * 2).astype(np.int64)]
        except IndexError:
            return x[0] * 0

    def outside(x: Array) -> Any:
        try:
            x = np.reshape(x, (3, 4))
        except ValueError:
            x = x[:3]
        rows = [(x[i, 0] * 2).astype(np.int64) for i in range(1)]
        return x[rows[0]]

    for function, count in ((inside, 2), (outside, 0)):
        decided = traced(function).decided
        assert (len(decided.paths) if decided is not None else 0) == count


def test_plain_number_of_one_branch_takes_the_dtype_of_the_other() -> None:
    def forward(x: Array) -> Any:
        return x[x > 1].mean() if np.sum(x > 1) > 0 else 0.5

    graph = trace_with_selections(lambda t: trace_checked(lambda a: [forward(a[0])], t), [TensorType.of((3, 4))])
    run = program_of(graph, "onnxruntime")
    for x in (np.zeros((3, 4), np.float32), np.arange(12, dtype=np.float32).reshape(3, 4)):
        (got,) = run([x])
        assert got.dtype == np.float32 and got == np.float32(forward(x))
