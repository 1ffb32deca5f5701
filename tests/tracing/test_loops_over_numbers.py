"""Loops whose number of steps is a number that depends on data: `for i in range(int(n[0])):`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from anylayer.errors import AnyLayerError
from anylayer.graph import Graph
from anylayer.network import Array, TensorType
from tests.engine_names import GENERAL, program_of

from .test_selections import several, traced

N = 40
Function = Callable[[Array, Array], Any]


def sum_of_the_first(x: Array, n: Array) -> Any:
    total = np.float32(0)
    for i in range(int(n[0])):
        total += x[i]
    return total


def largest_of_every_second(x: Array, n: Array) -> Any:
    best, where = np.float32(-9), 0
    for i in range(1, int(n[0]), 2):
        if x[i] > best:
            best, where = x[i], i
    return best, np.array(where)


def backwards(x: Array, n: Array) -> Any:
    y = np.zeros(N, np.float32)
    for i in range(int(n[0]) - 1, -1, -3):
        y[i] = x[i] * i
    return y


def appended(x: Array, n: Array) -> Any:
    keep = []
    for i in range(min(int(n[0]), N)):
        if x[i] > 0:
            keep.append(i)
    return np.array(keep, np.int64)


def until_a_sum(x: Array, n: Array) -> Any:
    total, t, rows = np.float32(0), 0, []
    while total < n[0] and t < N:
        total = total + np.abs(x[t])
        rows.append(x[t] * np.arange(3, dtype=np.float32))
        t += 1
    return np.array(rows, np.float32).reshape(-1, 3)[:5], total


def not_near_others(x: Array, n: Array) -> Any:
    order, keep = np.argsort(-x, kind="stable"), []
    while order.size > 0:
        keep.append(order[0])
        order = order[1:][np.abs(x[order[1:]] - x[order[0]]) > n[0] / 20]
    return np.array(keep), x[keep[:4]]


def in_a_branch(x: Array, n: Array) -> Any:
    total = np.float32(0)
    if x[0] > 0:
        for i in range(int(n[0])):
            for j in range(3):
                total += x[i] * j
    return total


NUMBERS = [sum_of_the_first, largest_of_every_second, backwards, in_a_branch]


@cache
def graph_of(function: Function) -> Graph:
    return traced(function, [TensorType.of((N,), np.float32), TensorType.of((1,), np.float32)])


@pytest.mark.one_per(lambda function, engine: engine if engine == "cpp" else function)
@pytest.mark.parametrize("engine", [*GENERAL, "cpp"])
@pytest.mark.parametrize("function", [*NUMBERS, appended, until_a_sum, not_near_others], ids=lambda f: f.__name__)
def test_matches_numpy(function: Function, engine: str) -> None:
    run = program_of(graph_of(function), engine)
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal(N).astype(np.float32)
        for steps in (0, 1, 7, N, -2):
            n = np.array([steps], np.float32)
            for got, want in zip(run([x, n]), several(function(x, n)), strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)
                assert got.shape == np.shape(want)


@pytest.mark.parametrize("engine", [*GENERAL, "cpp"])
def test_too_many_steps_are_an_error(engine: str) -> None:
    """An index is out of range after N steps; a loop without one ends after 30,000 steps at the latest."""

    def counted(x: Array, n: Array) -> Any:
        total = np.float32(0)
        for i in range(int(n[0])):
            if x[i % N] > 0:
                total += 1
        return total

    x = np.ones(N, np.float32)
    for function, most in ((sum_of_the_first, N), (counted, 30_000)):
        run = program_of(graph_of(function), engine)
        assert run([x, np.array([most], np.float32)])[0] == most
        for steps in (most + 1, 1e6):
            with pytest.raises(AnyLayerError):
                run([x, np.array([steps], np.float32)])


def test_a_position_needs_no_operators_for_a_step_of_1() -> None:
    def operators(function: Function) -> list[str]:
        (loop,) = [o for o in graph_of(function).ops if o.op == "Loop"]
        assert loop.body is not None
        return [o.op for o in loop.body.ops]

    assert "Mul" not in operators(sum_of_the_first) and "Mul" in operators(largest_of_every_second)
