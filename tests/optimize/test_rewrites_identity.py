"""Rewrites that remove operators which return their input, or a part of what was put together before."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest

from .rewriting import check, f, noise, rewritten


@pytest.mark.parametrize("backwards", [False, True])
def test_assignments_to_each_channel_become_one_concat(backwards: bool) -> None:
    def function(x: Any) -> Any:
        y = np.zeros_like(x)
        for c in sorted(range(x.shape[1]), reverse=backwards):
            y[:, c] = np.tanh(x[:, c]) * f(c + 1)
        return y

    x = noise(2, 12, 3, 4)
    counts = Counter(rewritten(function, x, engine=None))
    # the first assignment is a Pad, of which one more Slice takes a part
    assert (counts["Concat"], counts["Slice"], counts["Tanh"]) == (1, 13, 12)
    check(function, x)


@pytest.mark.parametrize(
    ("start", "stop", "left"),
    [(0, 5, ["Concat"]), (2, 9, ["Concat"]), (2, 5, []), (1, 5, ["Concat", "Slice"]), (2, 8, ["Concat", "Slice"])],
)
def test_slice_of_whole_parts_of_a_concat_is_their_concat(start: int, stop: int, left: list[str]) -> None:
    parts = noise(1, 2, 4), noise(1, 3, 4, seed=1), noise(1, 4, 4, seed=2)

    def function(*xs: Any) -> Any:
        return np.concatenate(xs, axis=1)[:, start:stop]

    assert rewritten(function, *parts, engine=None) == left
    check(function, *parts)
