"""Extreme values of each dtype: integers that wrap, shifts beyond the width, infinities and NaN."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from anylayer.network import Array, TensorType
from anylayer.testing import assert_same, run_graph
from anylayer.tracing import trace


def f(*values: float) -> Any:
    return np.array(values, np.float32)


def i(*values: int, dtype: str = "i8") -> Any:
    return np.array(values, dtype)


CASES: list[tuple[str, list[Any]]] = [
    ("x << y", [i(5, -1, 3, 1, 7), i(-1, -2, 64, 63, 2)]),
    ("x >> y", [i(5, -9, -3, -(2**63), 2**62), i(-1, -2, 64, 63, 62)]),
    ("x >> 255", [i(-5, 7)]),
    ("x << 64", [i(-5, 7)]),
    ("np.left_shift(x, y)", [i(5, 7, 3, dtype="i1"), i(9, -1, 7, dtype="i1")]),
    ("np.right_shift(x, y)", [i(-5, 7, 200, dtype="i2"), i(16, 15, 3, dtype="i2")]),
    ("np.left_shift(x, y)", [i(5, 7, 255, dtype="u1"), i(8, 7, 200, dtype="u1")]),
    ("x.prod()", [i(*[3] * 36)]),
    ("x.prod(0)", [np.arange(2, 22).reshape(5, 4) * 1001]),
    ("x.prod((0, 2), keepdims=True)", [np.arange(1, 31).reshape(2, 3, 5)]),
    ("x.prod()", [i(*[3] * 37, dtype="i4")]),
    ("x ** 2", [i(2**30 + 1, -3)]),
    ("x ** y", [i(2**30 + 1, 3, -7), i(2, 39, 21)]),
    ("x ** y", [i(200, 3, 7, -3, dtype="i4"), i(5, 25, 20, 3, dtype="i4")]),
    ("x ** y", [i(200, 3, 7, dtype="u1"), i(3, 7, 9, dtype="u1")]),
    ("x ** np.array([1, 70, 0])", [i(3, 3, 0)]),
    ("x.mean(dtype=np.int8)", [i(100, 100, 100)]),
    ("np.angle(x)", [i(3, -3, dtype="i1")]),
    ("np.sign(x)", [i(0, 7, 2**64 - 1, dtype="u8")]),
    ("np.angle(x)", [f(3, -3, 0, np.nan)]),
    ("np.hypot(x, x)", [i(200, 3, dtype="u1")]),
    ("np.sinh(x)", [np.array([100.0, -120.0, 1e-9, 0.0, 3.0])]),
    ("np.cosh(x)", [np.array([100.0, -120.0, 1e-9, 0.0, 3.0])]),
    ("np.log1p(x)", [f(np.inf, 1, 1e-9, 0, -1, 1e30)]),
    ("np.log1p(np.exp(x))", [f(90, 200, 1, -200)]),
    (
        "np.hypot(x, y)",
        [
            f(1e-30, 1e30, np.inf, -np.inf, 0, np.nan, 3, 3, 1e38),
            f(1e-30, -1e30, np.nan, 1, 0, np.inf, np.nan, -4, 0),
        ],
    ),
    ("np.hypot(x, y) != 0", [f(1e-30, 0, -1e-25), f(1e-30, 0, 0)]),
    ("np.logaddexp(x, x)", [f(np.inf, -np.inf, 3)]),
    ("np.logaddexp2(x, x)", [f(np.inf, -np.inf, 3)]),
    ("np.logaddexp2(x, y)", [np.array([-1, 2], "f2"), np.array([-1, 3], "f2")]),
    ("np.ldexp(x, 200)", [f(0, 1e-20, -3)]),
    ("np.ldexp(x, 255)", [f(0, 1e-40, -3)]),
    ("np.ldexp(x, -270)", [f(0, 3e38, 1)]),
    ("np.ldexp(x, y)", [f(0, 0, 1e-40, 3e38, 1), np.array([255, -255, 200, -270, 3], np.int16)]),
    ("np.digitize(x, [0, 1])", [f(np.nan, 0, 0.5, 2)]),
    ("np.digitize(x, [0, 1], right=True)", [f(np.nan, 0, 0.5, 2)]),
    ("np.digitize(x, [1, 0])", [f(np.nan, 0, 0.5, 2)]),
    ("np.searchsorted(np.float32([0, 1]), x)", [f(np.nan, 0, 0.5, 2)]),
    ("np.heaviside(x, 0.5)", [f(np.nan, 0, -1, np.inf)]),
]


@pytest.mark.parametrize(("text", "arrays"), CASES)
def test_values_match_numpy(text: str, arrays: list[Any]) -> None:
    def function(given: list[Array]) -> list[Array]:
        return [eval(text, {"np": np, **dict(zip("xy", given))})]

    with np.errstate(all="ignore"):
        want = np.asarray(function(arrays)[0])
    graph = trace(function, [TensorType.of(a.shape, a.dtype) for a in arrays])
    assert_same(run_graph(graph, arrays, "onnxruntime")[0], want, text)
