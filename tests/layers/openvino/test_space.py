"""Tests of the operations that move blocks of pixels."""

from __future__ import annotations

from pathlib import Path

import pytest
from openvino import opset15 as o15

from .harness import const, matches, noise, refuses

Y = noise(2, 4, 6, 5)
CASES = {
    "depth_to_space blocks": matches(lambda x: o15.depth_to_space(x, "blocks_first", 2), Y),
    "depth_to_space depth": matches(lambda x: o15.depth_to_space(x, "depth_first", 2), Y),
    "space_to_depth blocks": matches(lambda x: o15.space_to_depth(x, "blocks_first", 2), noise(1, 3, 4, 6)),
    "space_to_depth depth": matches(lambda x: o15.space_to_depth(x, "depth_first", 2), noise(1, 3, 4, 6)),
    "shuffle": matches(lambda x: o15.shuffle_channels(x, 1, 2), Y),
    "batch_to_space": matches(
        lambda x: o15.batch_to_space(x, const([1, 1, 2, 2]), const([0, 0, 1, 0]), const([0, 0, 0, 1])),
        noise(8, 3, 4, 5),
    ),
    "space_to_batch": matches(
        lambda x: o15.space_to_batch(x, const([1, 1, 2, 2]), const([0, 0, 1, 0]), const([0, 0, 0, 1])),
        noise(1, 3, 5, 5),
    ),
}


@pytest.mark.one_per(lambda name: name.split()[0])
@pytest.mark.parametrize("name", CASES)
def test_matches_openvino(name: str, tmp_path: Path) -> None:
    CASES[name](tmp_path)


test_batch_to_space_rejects_cropped_batch = refuses(
    lambda x: o15.batch_to_space(x, const([1, 1, 2, 1]), const([0, 0, 0, 0]), const([1, 0, 0, 0])),
    Y,
    text="block, begin and end must be 1, 0 and 0 for the batch, got (1, 0, 1)",
)
