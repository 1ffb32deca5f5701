"""Intervals of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

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
