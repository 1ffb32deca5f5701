"""Intervals of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from anylayer import ops
from anylayer.graph.intervals import Intervals
from anylayer.network import TensorType
from anylayer.tracing import trace


def interval(function: Callable[[Any], Any], dtype: str) -> tuple[float, float]:
    """Return the interval of the result of a function of an array with four elements."""
    graph = trace(lambda xs: [function(xs[0])], [TensorType((4,), np.dtype(dtype))])
    return Intervals(graph.producers).of_all(graph.ops).of(graph.outputs[0])


@pytest.mark.parametrize(
    ("function", "dtype", "want"),
    [
        (lambda x: x % 100, "int64", (0, 99)),
        (lambda x: (x % 100).astype(np.uint8), "int64", (0, 99)),
        (lambda x: (x % 300).astype(np.uint8), "int64", (0, 255)),
        (lambda x: (-(x % 10)).astype(np.uint16), "int64", (0, 65535)),
        (lambda x: (-(x % 10)).astype(np.int16), "int64", (-9, 0)),
        (lambda x: -np.sort(-x), "uint16", (0, 65535)),
    ],
)
def test_value_outside_its_dtype_can_become_any_other(
    function: Callable[[Any], Any], dtype: str, want: tuple[float, float]
) -> None:
    assert interval(function, dtype) == want


def softmax_sum(x: Any) -> Any:
    return np.exp(x - x.max(axis=0)).sum(axis=0)


@pytest.mark.parametrize(
    ("function", "low"),
    [
        (lambda x: np.exp(x), 0),
        (lambda x: x * x, 0),
        (lambda x: x * -x, -np.inf),
        (lambda x: np.sqrt(np.abs(x) + np.float32(4)), 1.998),
        (lambda x: (np.abs(x) + np.float32(1)).mean(), 0.999),
        (lambda x: (np.abs(x) + np.float32(1)).sum(), 0.999),
        (lambda x: (x - np.float32(1)).sum(), -np.inf),
        (softmax_sum, 1),
        (lambda x: np.exp(x - x.max(axis=0)).sum(), 1),
        (lambda x: np.power(np.abs(x) + np.float32(2), np.float32(0.3)), 0.999 * 2**0.3),
        (lambda x: x**2, 0),
        (lambda x: np.pad(np.abs(x) + np.float32(1), 1, constant_values=np.float32(-2)), -2),
        (lambda x: ops.average_pool((np.abs(x) + np.float32(1)).reshape(1, 1, 2, 2), 2, pads=1), 0),
        (lambda x: ops.resize(np.abs(x).reshape(1, 1, 2, 2), (4, 4), mode="cubic"), -np.inf),
        (lambda x: ops.resize(np.abs(x).reshape(1, 1, 2, 2), (4, 4), mode="linear"), 0),
        (lambda x: ops.conv(np.abs(x).reshape(1, 1, 2, 2), np.ones((1, 1, 1, 1), np.float32)), 0),
        (lambda x: ops.conv(np.abs(x).reshape(1, 1, 2, 2), -np.ones((1, 1, 1, 1), np.float32)), -np.inf),
    ],
)
def test_lower_bound_of_floats_is_proved(function: Callable[[Any], Any], low: float) -> None:
    assert interval(function, "float32")[0] == pytest.approx(low)


def test_indices_of_max_pool_are_not_its_values() -> None:
    def function(x: Any) -> Any:
        return ops.max_pool_with_indices(np.minimum(x, 0).reshape(1, 1, 2, 2), 2)[1]

    assert interval(function, "float32")[1] > 0
