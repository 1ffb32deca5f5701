"""List comprehensions over data, and expressions whose parts become statements of their own."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from anylayer.network import Array, TensorType
from anylayer.tracing.changed_code import with_changed_code
from anylayer.tracing.joined_ifs import builtins_of_changed_code
from tests.engine_names import GENERAL, program_of

from .test_selections import traced

Function = Callable[[Array], Any]
N = 9


def with_a_test(x: Array) -> Any:
    positions = np.where(x > -1)[0]
    return np.array([x[i] * 2 for i in positions if x[i] > 0])


def without_a_test(x: Array) -> Any:
    order = np.argsort(-x, kind="stable")
    pairs = [x[i] - x[i - 1] if x[i] > 0 else x[0] for i in order]
    return np.array(pairs, np.float32)


def positions_as_an_index(x: Array) -> Any:
    keep = [i for i in range(len(x)) if x[i] > 0.1 if i > 0]
    return x[keep], np.float32(len(keep))


def appended_to_later(x: Array) -> Any:
    keep = [x[i] for i in np.where(x > 0)[0] if x[i] < 1]
    if x[0] > 0:
        keep.append(x[0])
    return np.array(keep)


def two_loops(x: Array) -> Any:
    return np.array([x[i] + x[j] for i in range(3) for j in range(i, N) if x[j] > x[i]])


def the_same_variable_twice(x: Array) -> Any:
    i = x[0]
    rows = [[x[i] * 2 for i in range(i, i + 2)] for i in range(3) if x[i] > 0]
    return np.array(rows, np.float32).reshape(-1, 2), i


def in_a_loop(x: Array) -> Any:
    total = np.float32(0)
    for i in range(3):
        near = [x[j] for j in range(N) if x[j] > x[i]]
        total = total + np.float32(len(near))
    return total


def in_an_argument(x: Array) -> Any:
    total = x[0] * 0
    for i in range(N):
        total += np.minimum(x[i], 1.0 if x[i - 1] > 0 else 0.5) * (x[1] if x[i] < 0 else x[0])
    return total


CASES: list[Function] = [
    with_a_test, without_a_test, positions_as_an_index, appended_to_later, two_loops, the_same_variable_twice,
    in_a_loop, in_an_argument,
]  # fmt: skip
graph_of = cache(lambda function: traced(function, [TensorType.of((N,), np.float32)]))


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_matches_numpy(function: Function, engine: str) -> None:
    run, sizes = program_of(graph_of(function), engine), set()
    for seed in range(12):
        x = np.random.default_rng(seed).standard_normal(N).astype(np.float32) * (1, 1, 0.2, -1)[seed % 4]
        x = np.abs(x) if seed == 5 else -np.abs(x) - 0.1 if seed == 7 else x
        want = function(x)
        for result, w in zip(run([x]), want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_allclose(result, w, rtol=1e-5, atol=1e-6)
            sizes.add((np.size(w), float(np.sum(w))))
    assert len(sizes) > 3


calls: list[str] = []


def note(name: str, value: Any) -> Any:
    calls.append(name)
    return value


class Counter:
    n = 1

    def next(self) -> int:
        self.n += 1
        return self.n


def call_before(a: int) -> Any:
    return note("first", 1) + (note("second", 2) if a else note("third", 3))


def attribute_before(a: int) -> Any:
    counter = Counter()
    return counter.n + (counter.next() if a else 5) + counter.n


def element_before(a: int) -> Any:
    items = [1, 2]
    return items[0] + (items.pop(0) if a else 3) + items[0]


def in_the_second_operand(a: int) -> Any:
    return a or (note("yes", 7) if not a else note("no", 8))


def in_a_chained_comparison(a: int) -> Any:
    return 0 < a < (note("larger", 2) if note("asked", a) else 0)


def comprehension_after_a_call(a: int) -> Any:
    return note("first", [0]) + [note(f"item {i}", i) for i in range(a)]


def sum_of_a_conditional(a: int) -> Any:
    total = 1
    for i in range(3):
        total += note("odd", i) if (i + a) % 2 else note("even", -i)
    return total, [k * note("element", a) for k in (1, 2) if k > a]


def method_of_a_list(a: int) -> Any:
    keep: list[Any] = []
    for i in range(3):
        keep.append(note("kept", i) if i >= a else [j * 2 for j in range(i)])
    later = [i for i in keep if i]
    later.append(a)
    return keep, later


def functions_in_a_list(a: int) -> Any:
    return [f(2) for f in [lambda i: i + k + a for k in range(2)]]  # noqa: B023 (what Python does with k)


@pytest.mark.parametrize("a", [0, 1])
@pytest.mark.parametrize(
    "function",
    [
        call_before, attribute_before, element_before, in_the_second_operand, in_a_chained_comparison,
        comprehension_after_a_call, sum_of_a_conditional, method_of_a_list, functions_in_a_list,
    ],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_changed_code_evaluates_in_the_order_of_python(function: FunctionType, a: int) -> None:
    changed = with_changed_code(function.__code__)
    names = {**function.__globals__, **builtins_of_changed_code()}
    calls.clear()
    want, order = function(a), calls.copy()
    calls.clear()
    assert FunctionType(changed, names)(a) == want and calls == order
