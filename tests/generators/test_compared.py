"""Test how the test of a generated project compares outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anylayer.generators

TEMPLATE = Path(anylayer.generators.__file__).parent / "templates" / "compared.py.in"


@pytest.mark.parametrize(
    ("got", "want", "error", "limit"),
    [
        (np.array([1.0, np.nan, np.inf]), np.array([1.5, np.nan, np.inf]), 0.5, 0.015),
        (np.array([1.0]), np.array([np.nan]), np.inf, 0.2),
        (np.uint8([3, 250]), np.uint8([3, 255]), 5.0, 0.0),
        (np.array([2**62 + 1]), np.array([2**62]), 1e-99, 0.0),
        (np.array([True]), np.array([False]), 1.0, 0.0),
    ],
)
def test_integers_must_be_equal_and_reals_within_the_limit(
    got: Any, want: Any, error: float, limit: float
) -> None:
    names: dict[str, Any] = {"np": np, "TOLERANCE": 0.01}
    exec(TEMPLATE.read_text(), names)
    difference, _, allowed = names["compared"](got, want, 0.2 if np.isnan(want).all() else 0.0)
    assert (difference, allowed) == (error, limit)
