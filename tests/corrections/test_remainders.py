"""Remainders and floor divisions of floats near a multiple of the divisor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.corrections.harness import run
from tests.engine_names import EVERY

pytest.importorskip("openvino", reason="openvino is not installed")

X = np.array([1, 2, 3, -1, 0.7, 0.3, 10, 0, -0.05, 1e4, 99.9], np.float32)


@pytest.mark.parametrize("y", [0.1, 0.3, -0.1, 7, 1e-3, 1e30])
@pytest.mark.parametrize("function", [np.fmod, np.remainder, np.floor_divide, lambda x, y: np.divmod(x, y)[0]])
def test_remainder_by_a_constant(function: Callable[..., Any], y: float) -> None:
    want = function(X, np.float32(y))
    assert np.array_equal(run("openvino", lambda x: function(x, np.float32(y)), X)[0], want)


@pytest.mark.parametrize("function", [np.fmod, np.remainder, np.floor_divide])
def test_remainder_by_an_array(function: Callable[..., Any]) -> None:
    y = np.random.default_rng(0).uniform(0.01, 3, (50, 11)).astype(np.float32)
    x = np.concatenate([X + np.zeros((25, 1), np.float32), (y[25:] * np.arange(11)).astype(np.float32)])
    want = function(x, y)
    got = run("openvino", function, x, y)[0]
    assert np.array_equal(got, want)


def test_remainder_of_infinity() -> None:
    x = np.array([np.inf, 1, 2.5], np.float32)
    y = np.array([1, np.inf, -np.inf], np.float32)
    with np.errstate(invalid="ignore"):
        want = np.fmod(x, y)
    got = run("openvino", lambda x, y: np.fmod(x, y), x, y)[0]
    assert np.array_equal(got[1:], want[1:])


@pytest.mark.parametrize("engine", EVERY)
@pytest.mark.parametrize("function", [np.fmod, np.remainder])
@pytest.mark.parametrize("computed", [False, True])
@pytest.mark.parametrize("y", [100, -100])
def test_sign_of_a_remainder_of_zero(y: float, computed: bool, function: Callable[..., Any], engine: str) -> None:
    x = np.array([-100, 100, -0.0, 0.0, -200, 50, -300], np.float32)
    divisor = np.full(1, y, np.float32)

    def signs(x: Any, divisor: Any) -> Any:
        return np.copysign(np.float32(1), function(x, divisor if computed else np.float32(y)))

    assert np.array_equal(run(engine, signs, x, divisor)[0], signs(x, divisor))
