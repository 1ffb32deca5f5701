"""Loops that are cut where a comparison of their variable changes, so that compilers use vector instructions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from anylayer.loops import lower, to_cpp
from anylayer.loops.ir import If, Loop, all_statements
from anylayer.network import Array
from tests.loops.harness import build, call, needs_compiler, traced

pytestmark = needs_compiler
PLACES = np.arange(40)


def blurred(x: Array) -> Array:
    y = np.zeros_like(x)
    y[:, 1:-1, 2:-1] = x[:, :-2, :-3] + 2 * x[:, 2:, 3:]
    return y


FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "all sides": blurred,
    "front": lambda x: np.pad(x, ((0, 0), (0, 0), (3, 0))),
    "end of the rows": lambda x: np.pad(x, ((0, 0), (0, 4), (0, 0))) + 1,
    "wide": lambda x: np.pad(x, ((0, 0), (1, 0), (60, 90)), constant_values=np.nan),
    "one axis": lambda x: np.pad(x.reshape(-1), (2, 5)) * 3,
    "less": lambda x: np.where(PLACES < 7, x, -x),
    "less or equal": lambda x: np.where(PLACES <= 7, x, -x),
    "multiples": lambda x: np.where(3 * PLACES > 17, x, -x),
    "multiples from the end": lambda x: np.where(100 - 7 * PLACES >= 16, x, -x),
    "rows": lambda x: np.where(np.arange(5)[:, None] > 2, x, 2 * x),
    "rows of data": lambda x: np.where(x[:, :, :1] > 0, x + 1, x * 2),
    "two answers": lambda x: np.where(x[:, :, :1] > 0, np.where(PLACES > 30, x, 1), np.where(x[:1] > 0, 2, x)),
    "parts": lambda x: np.concatenate([x + 1, x[:, :, :2] * 2, -x], axis=2) / 3,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_cut_loops_equal_numpy(name: str, tmp_path: Path) -> None:
    x = np.random.default_rng(0).standard_normal((3, 5, 40)).astype(np.float32)
    code = to_cpp(lower(traced(FUNCTIONS[name], x)), "cut")
    (result,) = call(build([code], tmp_path, parts=True), code, [x], {}) or [np.zeros(0)]
    np.testing.assert_allclose(result, FUNCTIONS[name](x), rtol=1e-6)


def test_loop_is_cut_where_the_padding_ends() -> None:
    x = np.zeros((3, 5, 40), np.float32)
    statements = [*all_statements(lower(traced(blurred, x)).body)]
    extents = [s.extent.constant for s in statements if isinstance(s, Loop) and not s.parallel]
    assert extents == [2, 37, 37], "two columns of zeros; the middle for rows inside and outside"
    assert sum(isinstance(s, If) for s in statements) == 2


def test_loop_with_many_changes_is_not_cut() -> None:
    x = np.zeros((5, 40), np.float32)
    steps = lower(traced(lambda x: sum(np.where(n < PLACES, x * n, x) for n in range(1, 9)), x))
    extents = [s.extent.constant for s in all_statements(steps.body) if isinstance(s, Loop) and not s.parallel]
    assert not extents or extents == [40]
