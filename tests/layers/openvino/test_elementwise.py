"""Tests of the elementwise operations on one input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from openvino import opset15 as o15

from .harness import matches, noise

X = noise(1, 3, 8, 9)
P = np.abs(X) + np.float32(0.1)
T = np.tanh(X) * np.float32(0.9)
INPUTS = {
    "abs": X, "acos": T, "acosh": P + 1, "asin": T, "asinh": X, "atan": X, "atanh": T, "ceiling": X, "cos": X,
    "cosh": X, "erf": X, "exp": X, "floor": X, "hsigmoid": 4 * X, "hswish": 4 * X, "log": P, "mish": X,
    "negative": X, "relu": X, "sigmoid": X, "sign": X, "sin": X, "sinh": X, "softplus": X, "softsign": X,
    "sqrt": P, "tan": T, "tanh": X, "is_nan": X, "is_finite": X, "is_inf": X, "logical_not": X > 0,
}  # fmt: skip
HALVES = np.round(X * 4) / 2
CASES = {name: matches(getattr(o15, name), x) for name, x in INPUTS.items()}
CASES["round to even"] = matches(lambda x: o15.round(x, "half_to_even"), HALVES)
CASES["round away from zero"] = matches(lambda x: o15.round(x, "half_away_from_zero"), HALVES)
CASES["bitwise_not"] = matches(o15.bitwise_not, np.arange(-5, 5, dtype=np.int32))

INFINITE = np.float32([[-np.inf, np.inf], [np.nan, 1]])
CASES["is_inf, positive"] = matches(lambda x: o15.is_inf(x, {"detect_negative": False}), INFINITE)
CASES["is_inf, negative"] = matches(lambda x: o15.is_inf(x, {"detect_positive": False}), INFINITE)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
