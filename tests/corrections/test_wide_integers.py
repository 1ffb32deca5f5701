"""Integers beyond 2**24 on OpenVINO, which computes some of their operators in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anylayer
from anylayer.corrections import corrected
from anylayer.errors import EngineError
from anylayer.tracing import record
from tests.corrections.harness import run, traced, whole
from tests.tracing.test_selections import in_openvino

pytest.importorskip("openvino", reason="openvino is not installed")

LARGE = whole(-(2**30), 2**30, 40, 25), whole(-(2**30), 2**30, 40, 25, seed=1)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: x == y,
        lambda x, y: x != y,
        lambda x, y: x < x + 1,
        lambda x, y: x <= x - 1,
        lambda x, y: x > y,
        lambda x, y: x >= x + 1,
        lambda x, y: np.clip(x, -(2**29) - 1, 2**29 + 1),
        lambda x, y: np.clip(x, None, y),
        lambda x, y: np.maximum(x, 0) - np.abs(y),
        lambda x, y: np.sort(x, axis=1),
        lambda x, y: np.argmax(x, axis=1),
        lambda x, y: x & y,
        lambda x, y: x.astype(np.uint16),
        lambda x, y: x.astype(np.int16),
    ],
)
def test_large_integers_are_exact(function: Any, dtype: Any) -> None:
    x, y = (a.astype(dtype) for a in LARGE)
    y = np.where(np.arange(25) % 3 == 0, x, y)
    want = function(x, y)
    got = run("openvino", function, x, y)[0]
    assert got.dtype == want.dtype and np.array_equal(got, want)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_relu_of_large_integers_is_exact(dtype: Any) -> None:
    x = LARGE[0].astype(dtype)
    (got,) = run("openvino", lambda x: record("Relu", [x], x.shape, x.dtype), x)
    assert np.array_equal(got, np.maximum(x, 0))


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: x // 7,
        lambda x: x % 7,
        lambda x: np.fmod(x, 7),
        lambda x: x.max(1),
        lambda x: x.min(1),
        lambda x: x.sum(),
        lambda x: np.abs(x).sum(1),
        lambda x: record("ReduceMean", [x, np.array([1])], (40, 1), x.dtype),
        lambda x: record("ReverseSequence", [x, np.full(25, 40)], x.shape, x.dtype),
        lambda x: record("MatMul", [x, x.T], (40, 40), x.dtype),
        lambda x: record("Pow", [x, np.array(2, x.dtype)], x.shape, x.dtype),
    ],
)
def test_large_integers_in_float32_are_refused(function: Any, dtype: Any) -> None:
    with pytest.raises(
        EngineError, match=r"an integer is beyond 2\*\*24, and OpenVINO computes this operator in float32"
    ):
        run("openvino", function, LARGE[0].astype(dtype))


@pytest.mark.parametrize(
    "function",
    [lambda x: x // 7, lambda x: x % -7, lambda x: x.max(1), lambda x: x.sum(), lambda x: x @ x.T, lambda x: x**2],
)
def test_small_integers_of_unknown_interval_are_exact(function: Any) -> None:
    x = whole(-99, 99, 40, 25)
    assert np.array_equal(run("openvino", function, x)[0], function(x))


def test_integers_that_are_proved_small_are_not_checked() -> None:
    def function(x: Any) -> Any:
        i = np.argmax(x, axis=1)
        return [i // 5, i % 5, i == 3, i.max(), np.clip(i, 1, 3)]

    graph = traced(function, np.zeros((40, 25), np.float32))
    assert not corrected(graph, "openvino", checking=True).checks


def counted(x: Any) -> Any:
    total = np.int32(2**31 - 300)
    for i in range(200):
        if x[i % 10] > 0 and total > 0:
            total = total + np.int32(1)
        elif x[i % 7] < -1:
            total = total - np.int32(3)
    return total


def selected(x: Any) -> Any:
    place = np.arange(x.shape[0]) + 2**30 + 1
    return np.where(x > 0, place, place - 2**29)


@pytest.mark.parametrize("function", [counted, selected])
def test_large_integers_are_selected_in_loops_and_for_open_sizes(function: Any, tmp_path: Any) -> None:
    x = np.random.default_rng(3).normal(size=10).astype(np.float32)
    shapes = {"x": ("N",)} if function is selected else None
    anylayer.export(function, x, path=tmp_path / "large.xml", shapes=shapes)
    model = in_openvino(tmp_path / "large.xml")
    for given in (x, -x):
        assert np.array_equal(model({"x": given})["0"], function(given))
