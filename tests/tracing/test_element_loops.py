"""Loops over elements: those whose steps do not depend on each other are computed at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer.network import Array, TensorType
from tests.engine_names import GENERAL, program_of

from .test_selections import Function, several, traced

AT_ONCE: list[Function] = []
LOOPS: list[Function] = []
N = 70
"""The number of elements, which are too many to record each step."""


def at_once(function: Function) -> Function:
    AT_ONCE.append(function)
    return function


def loop(function: Function) -> Function:
    LOOPS.append(function)
    return function


@at_once
def quotients(x: Array, y: Array) -> Any:
    result = np.zeros(len(x))
    for i in range(len(x)):
        if y[i] == 0:
            result[i] = -1
        else:
            result[i] = x[i] / y[i]
    return result


@at_once
def quotients_of_selected(x: Array, y: Array) -> Any:
    x, y = x[x > 0], y[x > 0]
    result = np.full(len(x), 7, np.float32)
    for i in range(len(x)):
        if y[i] > 0.5:
            result[i] += x[i]
        elif y[i] != 0:
            result[i] = x[i] * y[i] + i
    return result


@at_once
def rows_of_selected(x: Array, y: Array) -> Any:
    table, rows = np.stack([x, y, x + y], axis=1)[y > 0.2], []
    for i in range(table.shape[0]):
        rows.append(table[i, 2] * 2)
    return np.array(rows, np.float32)


@at_once
def neighbours(x: Array, y: Array) -> Any:
    result = np.zeros_like(x)
    for i in range(len(x)):
        if y[i] > 0.5:
            result[i] = x[i - 1]
    return result


@loop
def running_sum(x: Array, y: Array) -> Any:
    x = x[y > 0.2]
    result, total = np.zeros(len(x)), 0.0
    for i in range(len(x)):
        total = total + float(x[i])
        result[i] = total
    return result


@loop
def element_before(x: Array, y: Array) -> Any:
    x = x[y > 0.2]
    result = np.ones(len(x), np.float32)
    for i in range(len(x)):
        if x[i] > 0:
            result[i] = result[i - 1] + x[i]
    return result


@loop
def next_element(x: Array, y: Array) -> Any:
    x = x[y > 0.2]
    result = np.zeros(len(x) + 1, np.float32)
    for i in range(len(x)):
        result[i + 1] = result[i] * 0.5 + x[i]
    return result


@loop
def first_that_is_large(x: Array, y: Array) -> Any:
    x = x[y > 0.2]
    result = np.zeros(len(x), np.float32)
    for i in range(len(x)):
        if x[i] > 1:
            break
        result[i] = x[i]
    return result


@loop
def only_the_first_step(x: Array, y: Array) -> Any:
    x = x[y > 0.2]
    result = np.zeros(len(x), np.float32)
    for i in range(len(x)):
        result[i] = x[i] * 2
        break
    return result


@loop
def each_selected_row(x: Array, y: Array) -> Any:
    rows = []
    for row in np.stack([x, y], axis=1)[y > 0.2]:
        if row[0] > 0:
            rows.append(row[1] * 3)
    return np.array(rows, np.float32)


def given(seed: int) -> list[Array]:
    """Return numbers, and others of which none, all or some are large."""
    random = np.random.default_rng(seed)
    y = np.where(random.random(N) < (0.4, 0, 1, 0.1)[seed % 4], 0.25 + random.random(N), 0)
    return [random.standard_normal(N).astype(np.float32), y.astype(np.float32)]


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("function", [*AT_ONCE, *LOOPS], ids=lambda f: f.__name__)
def test_loop_over_elements_equals_numpy(function: Function, engine: str) -> None:
    graph = traced(function, [TensorType.of(x.shape, x.dtype) for x in given(0)])
    assert any(o.op == "Loop" for o in graph.ops) == (function in LOOPS)
    run = program_of(graph, engine)
    for seed in range(4):
        (got,), (want,) = run(given(seed)), several(function(*given(seed)))
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
