"""Items of Python lists and tuples at an index that depends on data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer.errors import TraceError
from anylayer.network import Array, TensorType
from anylayer.testing import run_graph
from tests.engine_names import GENERAL, program_of

from .test_selections import Function, several, traced

N = 40
WEIGHTS = [0.5, 1.0, 2.0, -1.0]
PAIRS = [(k % 7, (3 * k + 1) % N) for k in range(N)]


def weight_of_the_largest(x: Array) -> Any:
    return x * WEIGHTS[int(np.argmax(x[0]))], x[(3, 1, 2, 0)[x[1].argmin()]], x[0] * WEIGHTS[min(len(x[x > 2]), 3)]


def at_an_index_from_a_slice(x: Array) -> Any:
    factor = WEIGHTS[np.argmax(x[0, 1:])]
    return x * np.float32(WEIGHTS[np.argmax(x[:4, 0])]), x * WEIGHTS[x[:4, 1].argmin() - 4] * factor


def counted_from_the_end(x: Array) -> Any:
    total = 0.0
    for i in range(N):
        k = x[i].argmax()
        if x[i, 0] > 0:
            total += WEIGHTS[k] + WEIGHTS[-1 - k] + WEIGHTS[int(x[i, 1] > 0)]
    return np.float64(total)


def pairs_in_a_loop(x: Array) -> Any:
    out, n = np.zeros(N, np.float32), 0
    for i in range(N):
        a, b = PAIRS[i]
        if x[a, 0] > x[b, 1] and out[a] == 0:
            out[b] = x[a, 2] * WEIGHTS[b % 4]
            n += PAIRS[i][0]
    return out, np.int64(n)


def two_lambdas(x: Array) -> Any:
    first, second = (lambda a: a[0] * WEIGHTS[a.argmax()]), (lambda a, b: a[1] - b[2])
    total = x[0, 0]
    for i in range(7):
        if x[i, 0] > 0:
            total = total + first(x[i]).astype(np.float32)
        else:
            total = total + second(x[i], x[i + 1])
    return total


@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize(
    "function",
    [weight_of_the_largest, at_an_index_from_a_slice, counted_from_the_end, pairs_in_a_loop, two_lambdas],
    ids=lambda f: f.__name__,
)
def test_matches_numpy(function: Function, engine: str) -> None:
    graph = traced(function, [TensorType((N, 4), np.dtype("f4"))])
    run = program_of(graph, engine)
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((N, 4)).astype(np.float32)
        x = x if seed else np.zeros_like(x)
        for got, want in zip(run([x]), several(function(x)), strict=True):
            assert (got.shape, got.dtype) == (np.shape(want), np.asarray(want).dtype)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def written_through_a_pair(x: Array) -> Any:
    pairs = [(x[i].copy(), i) for i in range(2 * N)]
    for i in range(2 * N):
        if x[i, 0] > 0:
            pairs[i][0][0] = 5
    return pairs[0][0]


def written_through_an_item(x: Array) -> Any:
    pairs = [(x[i].copy(), i) for i in range(2 * N)]
    for row, i in pairs:
        if x[i, 0] > 0:
            row[0] = 5
    return pairs[0][0]


def text_or_number(x: Array) -> Any:
    return x * len(["a", (1, 2), [3]][x[0].argmax()])


@pytest.mark.parametrize("function", [written_through_a_pair, written_through_an_item, text_or_number])
def test_items_that_may_be_written_to_are_not_copied(function: Function) -> None:
    """Arrays in a list are written to, or the code is refused."""
    x = np.random.default_rng(0).standard_normal((2 * N, 4)).astype(np.float32)
    try:
        graph = traced(function, [TensorType(x.shape, x.dtype)])
    except TraceError as error:
        assert "paths" in str(error) or "indexing" in str(error)
    else:
        np.testing.assert_array_equal(run_graph(graph, [x], "onnxruntime")[0], function(x))
