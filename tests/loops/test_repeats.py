"""The operator Loop in generated C++ code, compared with NumPy: states in place, conditions, limits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.compile.plan import make_plan
from anylayer.compile.regions import find_regions, kinds_of_regions
from anylayer.errors import EngineError
from anylayer.loops import lower, to_cpp
from anylayer.network import Array, TensorType
from anylayer.testing import run_graph
from anylayer.tracing.loop_operator import record_loop
from anylayer.tracing.record import trace
from tests.engine_names import program_of
from tests.loops.harness import needs_compiler
from tests.tracing import test_recorded_loops as recorded
from tests.tracing.test_recorded_loops import N, given, several
from tests.tracing.test_selections import traced

pytestmark = needs_compiler
Function = Callable[[Array], Any]
OTHERS: list[Function] = [
    recorded.flags_in_a_list,
    recorded.scores_set_to_zero,
    recorded.loop_in_a_side,
    recorded.halves,
    recorded.through_a_closure_and_a_view,
    recorded.best_path,
]
CASES: list[Function] = []
ROWS = 8 * N


def many() -> list[Array]:
    """Return detections (ROWS, 5): those of all inputs of the other functions, in several orders, and none."""
    rows = np.concatenate(given())
    return [rows, rows[::-1].copy(), rows * 0, np.random.default_rng(0).permutation(rows)]


def case(function: Function) -> Function:
    """Add a function of detections (ROWS, 5), boxes and scores, to the cases."""
    CASES.append(function)
    return function


@case
def nested_conditions(dets: Array) -> Any:
    keep, scores = np.zeros(ROWS, bool), np.zeros(ROWS, np.float32)
    for i in range(ROWS):
        if dets[i, 4] > 0.3 and (dets[i, 0] > 0.2 or not dets[i, 1] > 0.3):
            if np.exp(dets[i, 4]) > 1.8:
                keep[i] = True
            else:
                scores[i] = np.exp(dets[i, 4]) + keep[i - 1]
    return keep, scores


@case
def two_sides_write(dets: Array) -> Any:
    high, low, at = np.zeros(ROWS, np.float32), np.zeros((ROWS, 2), np.float32), 0
    for i in range(ROWS):
        if dets[i, 4] > 0.5:
            high[at] = np.exp(dets[i, 4])
            at += 1
        else:
            low[i, 1] = dets[i, 0]
            if dets[i, 0] > 10:
                low[i, 0] = at
    return high, low, np.array([at])


@case
def reads_what_it_writes(dets: Array) -> Any:
    counts, last = np.zeros(5, np.int64), np.zeros(ROWS, np.float32)
    for i in range(ROWS):
        k = np.argmax(dets[i])
        if dets[i, k] > 0.3:
            counts[k] += 1
            last[i] = counts[k] * 2 + counts[0]
    return counts, last


@case
def reads_between_two_writes(dets: Array) -> Any:
    y = dets[:, 4].copy()
    for i in range(ROWS):
        if y[i] > 0.2:
            y[0] = y[i] + 1
            y[ROWS - 1 - i] = y[0] * 2
    return y


@case
def exchanged_rows(dets: Array) -> Any:
    y = dets.copy()
    for i in range(ROWS):
        j = np.argmax(np.where(np.arange(ROWS) >= i, y[:, 4], -1))
        if y[j, 4] > y[i, 4]:
            row = y[i].copy()
            y[i] = y[j]
            y[j] = row
    return y


@case
def exchanged_numbers(dets: Array) -> Any:
    a, b, steps = dets[0, 0], dets[0, 1] + 1, 0
    while a < 1e30 and steps < 5000:
        a, b = b, a + b
        steps += 1
    return a, b, np.int64(steps)


@case
def found_in_a_grid(dets: Array) -> Any:
    found, at = np.zeros((2 * ROWS, 2), np.float32), 0
    inside = np.zeros((ROWS, 5), bool)
    for i in range(ROWS):
        for j in range(5):
            if dets[i, j] > 0.4:
                found[at % (2 * ROWS), 0] = i
                found[at % (2 * ROWS), 1] = dets[i, j]
                inside[i, j] = True
                at += 1
    return found, inside, np.int64(at)


@case
def flags_of_close_ones(dets: Array) -> Any:
    close = np.zeros(ROWS, np.bool_)
    for i in range(ROWS):
        if close[i]:
            continue
        for j in range(i + 1, ROWS):
            if abs(dets[i, 0] - dets[j, 0]) < 4 and dets[i, 4] > dets[j, 4]:
                close[j] = True
    return ~close


@case
def sums_of_neighbours(dets: Array) -> Any:
    y = dets[:, 4].copy()
    for _ in range(9):
        for i in range(1, ROWS):
            if y[i] < y[i - 1]:
                y[i] = y[i - 1] + y[i]
            else:
                y[i - 1] = y[i]
    return y, y[3:].max()


@case
def as_many_steps_as_another_loop_says(dets: Array) -> Any:
    y, total = dets[:, 4].copy(), 0.0
    for i in range(ROWS):
        for j in range(i + 1, ROWS):
            if y[j] > y[i] + 0.1:
                total += float(y[j])
                y[j] = y[i] - 1
    return y, np.float64(total)


@pytest.mark.one_per(lambda function: "of another file" if function in OTHERS else function)
@pytest.mark.parametrize("function", [*OTHERS, *CASES], ids=lambda f: f.__name__)
def test_matches_numpy(function: Function) -> None:
    inputs = given() if function in OTHERS else many()
    graph = traced(function, [TensorType(inputs[0].shape, np.dtype("f4"))])
    assert any(o.op == "Loop" for o in graph.ops) or function is recorded.best_path
    run = program_of(graph, "cpp")
    for dets in inputs:
        for got, want in zip(run([dets]), several(function(dets.copy())), strict=True):
            want = np.asarray(want)
            assert got.shape == want.shape and got.dtype == want.dtype
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)


def test_states_that_become_other_states_and_rows() -> None:
    def exchanged(x: Array, steps: Array) -> Any:
        last = record_loop(lambda v: [v[1], v[3], v[4], v[2]], steps, None, [x, 2 * x, 3 * x], [], 9)
        number, rows = record_loop(lambda v: [v[1], v[0], v[2]], 3, None, [steps], [], 3, always=True)
        return [*last, number, rows]

    x = np.arange(4, dtype=np.float32)
    graph = trace(lambda v: exchanged(*v), [TensorType.of(x.shape), TensorType((), np.dtype(np.int64))])
    *last, number, rows = run_graph(graph, [x, np.array(4)], "cpp")
    np.testing.assert_array_equal(last, [2 * x, 3 * x, x])
    assert number == 2 and rows.tolist() == [4, 0, 1]


@pytest.mark.parametrize(("steps", "place"), [(3, 0), (3, -1), (3, 7), (0, 7), (0, 2)])
def test_state_that_becomes_a_place_is_checked_before(steps: int, place: int) -> None:
    def places(v: list[Array]) -> Any:
        return record_loop(
            lambda w: [w[1], np.argmax(w[4][w[0]]), w[3] + w[4][w[2]], w[4]],
            v[1],
            None,
            [v[2], v[0][0], v[0]],
            [],
            9,
        )

    def last(v: list[Array]) -> Any:
        place, total, x = places(v)
        return [place, total, x[place]]

    x, number = np.random.default_rng(0).random((4, 4), np.float32), np.dtype(np.int64)
    graph = trace(last, [TensorType(x.shape, x.dtype), TensorType((), number), TensorType((), number)])
    given = [x, np.array(steps), np.array(place)]
    if place == 7:
        with pytest.raises(EngineError, match="outside its axis"):
            run_graph(graph, given, "cpp")
        return
    at, total = place, x[0]
    for row in x[:steps]:
        at, total = int(np.argmax(row)), total + x[at]
    for got, want in zip(run_graph(graph, given, "cpp"), [at, total, x[at]], strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6)


def test_states_without_elements() -> None:
    def sums(v: list[Array]) -> Any:
        return record_loop(
            lambda w: [w[1], w[2] + 1, w[3] + w[2].sum()], v[1], None, [v[0], v[0].sum() + 2], [], 9
        )

    graph = trace(sums, [TensorType((2, 0, 3), np.dtype("f4")), TensorType((), np.dtype(np.int64))])
    rows, total = run_graph(graph, [np.zeros((2, 0, 3), np.float32), np.array(4)], "cpp")
    assert rows.shape == (2, 0, 3) and total == 2


@pytest.mark.parametrize(("function", "elements"), [(found_in_a_grid, 4 * ROWS), (flags_of_close_ones, ROWS)])
def test_single_elements_are_written_in_place(function: Function, elements: int) -> None:
    text = to_cpp(lower(traced(function, [TensorType((ROWS, 5), np.dtype("f4"))])), "f").text
    inner = text.split("for (int64_t j = 0; j < " if elements > ROWS else f"j < {ROWS - 1} - i", 1)[1]
    inner = inner.split("\n        }\n", 1)[0]
    assert "if (" in inner and "[" in inner.split("if (", 1)[1]
    assert f"< {elements}; ++" not in inner  # no copy of the array


def test_index_of_an_axis_of_size_1_is_checked() -> None:
    def second(x: Array) -> Any:
        return x[:1][x[1].astype(np.int64)] + 1

    run = program_of(traced(second, [TensorType((2,), np.dtype("f4"))]), "cpp")
    assert run([np.array([5, 0], np.float32)]) == [6]
    with pytest.raises(EngineError, match="outside its axis"):
        run([np.array([5, 1], np.float32)])


def test_endless_loop_is_an_error() -> None:
    def endless(x: Array) -> Any:
        steps = 0
        while x.max() > 0:
            x = x * np.float32(0.5) + x * np.float32(0.5)
            steps += 1
        return x, np.int64(steps)

    run = program_of(traced(endless, [TensorType((3,), np.dtype("f4"))]), "cpp")
    assert run([np.zeros(3, np.float32)])[1] == 0
    with pytest.raises(EngineError, match="an index that is read from data lies outside its axis"):
        run([np.ones(3, np.float32)])


def test_index_out_of_range_is_an_error() -> None:
    def places(x: Array) -> Any:
        found = np.zeros(4, np.float32)
        for i in range(ROWS):
            if x[i] > 0:
                found[x[i].astype(np.int64)] = i
        return found

    run = program_of(traced(places, [TensorType((ROWS,), np.dtype("f4"))]), "cpp")
    x = np.arange(ROWS, dtype=np.float32) % 4
    np.testing.assert_array_equal(run([x])[0], places(x))
    x[3] = 4
    with pytest.raises(EngineError, match="outside its axis"):
        run([x])


@pytest.mark.parametrize("function", [recorded.flags_and_continue, recorded.repeated_labels])
def test_rows_that_loops_select_match_numpy(function: Function) -> None:
    run = program_of(traced(function, [TensorType((N, 5), np.dtype("f4"))]), "cpp")
    for x in given():
        for got, array in zip(run([x]), several(function(x)), strict=True):
            np.testing.assert_allclose(got, array, rtol=1e-5)


def test_loops_of_a_file_stay_loops_and_are_a_region(tmp_path: Path) -> None:
    rows = many()[0]
    anylayer.export(found_in_a_grid, rows, path=tmp_path / "found.onnx")
    net = anylayer.read(tmp_path / "found.onnx")
    plan = make_plan(net.network, net.definitions, net.network.inputs, net.network.outputs)
    assert kinds_of_regions(plan, find_regions(plan).regions)
    found = net.compile("cpp")({"dets": rows}).values()
    for got, want in zip(found, found_in_a_grid(rows), strict=True):
        np.testing.assert_array_equal(got, want)


def test_first_nan_is_the_largest_and_the_smallest() -> None:
    x = np.random.default_rng(0).standard_normal((3, 6, 4)).astype(np.float32)
    x[0, 4, 1] = x[1, 2:5, 2] = x[2, 0, :] = np.nan
    x[2, :, 3] = -np.inf

    for best in (np.argmax, np.argmin):

        def places(v: Array, best: Callable[..., Array] = best) -> Any:
            return best(v, axis=0), best(v, axis=1), best(v, axis=2), best(v[:1], axis=0)

        graph = traced(places, [TensorType.of(x.shape)])
        for got, want in zip(run_graph(graph, [x], "cpp"), places(x), strict=True):
            np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u1", "i8", "?"])
def test_first_of_equal_extremes_is_found(dtype: str) -> None:
    inputs = []
    for size in (1, 2, 15, 16, 17, 33, 97, 256):
        random = np.random.default_rng(size)
        x = random.integers(0, 4, (40, size)).astype(dtype)
        if x.dtype.kind == "f":
            x[random.random(x.shape) < 0.01] = np.nan
            x[:10] = random.choice([0.0, -0.0, -np.inf], (10, size))
        inputs.append(x)

    def places(arrays: Sequence[Array]) -> list[Any]:
        return [best(v, axis=1) for v in arrays for best in (np.argmax, np.argmin)]

    graph = trace(places, [TensorType.of(x.shape, x.dtype) for x in inputs])
    for got, want in zip(run_graph(graph, inputs, "cpp"), places(inputs), strict=True):
        np.testing.assert_array_equal(got, want)
