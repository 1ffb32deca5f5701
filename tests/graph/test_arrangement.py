"""Arrangements match NumPy's reshape and transpose."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anylayer.graph.arrangement import Arrangement, identity, inverse

SHAPE = (2, 6, 1, 4)
SHAPES = [SHAPE, (12, 4), (2, 3, 2, 4), (2, 3, 1, 8), (4, 12), (48,), (2, 2, 3, 2, 2), (1, 6, 2, 2, 2)]


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10_000)), max_size=8))
def test_arrangements_match_numpy(steps: list[tuple[bool, int]]) -> None:
    x = np.arange(48).reshape(SHAPE)
    found: Arrangement | None = identity(SHAPE)
    want = x
    for reshape, seed in steps:
        shape = SHAPES[seed % len(SHAPES)]
        perm = [int(p) for p in np.random.default_rng(seed).permutation(want.ndim)]
        want = want.reshape(shape) if reshape else want.transpose(perm)
        found = found.reshaped(shape) if reshape else found.transposed(perm)
        if found is None:
            return
    assert found.shape == want.shape
    np.testing.assert_array_equal(found.apply(x), want)
    np.testing.assert_array_equal(found.undo(want), x)
    if found.axes is not None:
        np.testing.assert_array_equal(x.transpose(found.axes), want)
    for shape, perm in (found.canonical(), found.moves()):
        np.testing.assert_array_equal(x.reshape(shape).transpose(perm).reshape(-1), want.reshape(-1))


@pytest.mark.parametrize("axes", [(0, 2, 3, 1), (1, 0, 3, 2)])
def test_transposition_of_an_operand_keeps_its_sizes_of_1(axes: tuple[int, ...]) -> None:
    operand = np.arange(6).reshape(1, 6, 1, 1)
    to = identity((2, 6, 3, 4)).transposed(axes)
    np.testing.assert_array_equal(to.undo(operand.transpose(axes)), operand)
    assert inverse(axes) == tuple(np.argsort(axes))


def test_reshape_whose_sizes_do_not_divide_each_other_is_none() -> None:
    assert identity((4, 6)).reshaped((3, 8)) is None
    assert identity((4, 6)).reshaped((2, 12)) is not None
