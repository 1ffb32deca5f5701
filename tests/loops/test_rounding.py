"""Conversions that loops leave out because they do not change the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from anylayer.loops import lower, to_cpp
from tests.loops.harness import build, call, needs_compiler, traced

pytestmark = needs_compiler
X = np.random.default_rng(0).uniform(-9, 9, 5000).astype(np.float32)


def parts(x: Any) -> Any:
    """Return the fractions of positions of an axis, and of numbers."""
    at = np.arange(5000, dtype=np.float32) * np.float32(0.37)
    low = np.floor(at).astype(int)
    return [(at - low).astype(np.float32) * x, (x - np.floor(x).astype(int)).astype(np.float32)]


def test_differences_of_floats_and_their_floor_stay_in_single_precision(tmp_path: Path) -> None:
    code = to_cpp(lower(traced(parts, X)), "parts")
    assert "double(" not in code.text
    got = call(build([code], tmp_path), code, [X], {}) or []
    for one, want in zip(got, parts(X), strict=True):
        assert np.array_equal(one, want)


def test_floor_stays_where_numbers_may_be_negative(tmp_path: Path) -> None:
    def whole(x: Any) -> Any:
        positions = np.cumsum(np.ones_like(x)).astype(np.float32)
        return [np.floor(x).astype(np.int64), np.floor(positions - np.float32(2500)).astype(np.int64)]

    code = to_cpp(lower(traced(whole, X)), "whole")
    got = call(build([code], tmp_path), code, [X], {}) or []
    for one, want in zip(got, whole(X), strict=True):
        assert np.array_equal(one, want)
