"""Tests of pooling."""

from __future__ import annotations

from pathlib import Path

import pytest
from openvino import opset1 as o1
from openvino import opset8 as o8
from openvino import opset14 as o14
from openvino import opset15 as o15

from .harness import const, matches, noise, refuses

X, Y = noise(1, 3, 8, 9), noise(2, 4, 6, 5)
CASES = {}
for how in ("floor", "ceil"):
    for word in ("explicit", "same_upper", "valid"):
        CASES[f"max {how} {word}"] = matches(
            lambda x, how=how, word=word: o1.max_pool(x, [2, 2], [1, 0], [0, 1], [3, 3], how, word), X
        )
        CASES[f"max with indices {how} {word}"] = matches(
            lambda x, how=how, word=word: o8.max_pool(
                x, [2, 2], [1, 1], [1, 0], [0, 1], [3, 3], how, word, "i64", 2
            ).outputs(),
            X,
        )
        for exclude in (True, False):
            CASES[f"mean {how} {word} {exclude}"] = matches(
                lambda x, how=how, word=word, e=exclude: o1.avg_pool(
                    x, [2, 2], [1, 0], [0, 1], [3, 3], e, how, word
                ),
                X,
            )
for how in ("ceil", "ceil_torch"):
    CASES[f"max {how} opset14"] = matches(
        lambda x, how=how: o14.max_pool(x, [2, 2], [1, 1], [1, 1], [1, 1], [2, 3], how).outputs(), X
    )
    for exclude in (True, False):
        CASES[f"mean {how} {exclude} opset14"] = matches(
            lambda x, how=how, e=exclude: o14.avg_pool(x, [2, 2], [1, 1], [1, 1], [2, 3], e, how), X
        )
for axis in (0, 1, 2):
    CASES[f"indices from axis {axis} on"] = matches(
        lambda x, axis=axis: o8.max_pool(
            x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], "floor", "explicit", "i32", axis
        ).outputs(),
        Y,
    )
CASES["adaptive mean"] = matches(lambda x: o15.adaptive_avg_pool(x, const([3, 4])), X)

test_rejects_index_axis_after_first_spatial_axis = refuses(
    lambda x: o8.max_pool(x, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2], "floor", "explicit", "i32", 3).outputs(),
    Y,
    text="axis=3 must not lie after the first spatial axis, axis 2",
)


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)
