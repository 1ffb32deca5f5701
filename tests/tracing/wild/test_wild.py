"""Code as public repositories have it, compared with NumPy on two engines.

The inputs select a part, nothing and everything. Zeros, negative and large numbers follow where NumPy computes
finite numbers for them.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from anylayer.engines import load_engine
from anylayer.errors import AnyLayerError
from anylayer.network import Array
from tests.engine_names import GENERAL

from .case import SHARES, Case, all_cases

CASES = all_cases()
MOST_NOT_TRACED = 10
"""The number of functions that were not traced when this number was last lowered."""
LONG_KINDS = ("loops", "suppress")
"""The beginnings of the kinds of functions that take most of the time. Other files of this room have loops of each
form."""


@pytest.mark.one_per(lambda case: case.kind if case.kind.startswith(LONG_KINDS) else case.name)
@pytest.mark.parametrize("engine", GENERAL)
@pytest.mark.parametrize("case", [c for c in CASES if not c.reason], ids=lambda c: f"{c.kind}-{c.name}")
def test_traced_function_equals_numpy(case: Case, engine: str) -> None:
    program = load_engine(engine).compile(case.traced(), threads=1)
    for arrays, want in inputs_and_results(case):
        for got, expected in zip(program(list(arrays)), want, strict=True):
            assert got.shape == expected.shape and got.dtype == expected.dtype
            largest = max(1.0, float(np.abs(expected).max(initial=0)))
            np.testing.assert_allclose(got, expected, rtol=case.tolerance, atol=case.tolerance * largest)


def inputs_and_results(case: Case) -> Iterator[tuple[list[Array], list[Array]]]:
    """Yield inputs of a case, and what NumPy computes for them."""
    for seed in range(len(SHARES)):
        arrays = case.given(seed)
        yield arrays, case.want(arrays)
    for factor in (0, -1, 100):
        numbers = [(x * factor).astype(x.dtype) if x.dtype.kind == "f" else x for x in case.given(0)]
        try:
            want = case.want(numbers)
        except Exception:  # the function refuses them
            continue
        if all(np.isfinite(y).all() for y in want):
            yield numbers, want


@pytest.mark.parametrize("case", [c for c in CASES if c.reason], ids=lambda c: f"{c.kind}-{c.name}")
def test_other_function_fails_with_its_reason(case: Case) -> None:
    """If the function is traced, take the reason out and lower MOST_NOT_TRACED."""
    with pytest.raises(AnyLayerError, match=case.reason):
        case.traced()


def test_most_functions_are_traced() -> None:
    assert len(CASES) >= 120 and sum(bool(c.reason) for c in CASES) <= MOST_NOT_TRACED
