"""DecodeBBox: Cascade R-CNN's moved regions."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.caffe.boxes import F
from tests.layers.harness import case, noise, rejects

MEAN, STD = [0.0, 0.1, 0.0, 0.0], [0.05, 0.05, 0.1, 0.1]


def reference(moves: Array, regions: Array, mean: Any, std: Any) -> Array:
    """Compute DecodeBBoxesWithPrior of math_functions.cpp for the second class."""
    rows = []
    for move, (image, x1, y1, x2, y2) in zip(moves.reshape(-1, 8), regions.reshape(-1, 5)):
        wide, high = x2 - x1 + F(1), y2 - y1 + F(1)
        bx, by, bw, bh = move[4:] * F(std) + F(mean)
        tw, th = wide * np.exp(bw), high * np.exp(bh)
        x = bx * wide + F(0.5) * (x2 + x1) - (tw - 1) / F(2)
        y = by * high + F(0.5) * (y2 + y1) - (th - 1) / F(2)
        rows.append([image, x, y, x + tw - 1, y + th - 1])
    return np.array(rows, F)[:, :, None, None]


MOVES = noise(4, 8)
REGIONS = np.array([[0, 3, 4, 20, 30], [1, 0, 0, 5, 5], [0, 10, 10, 90, 40], [1, 7, 8, 7, 8]], F)

test_moves = case(
    "DecodeBBox",
    {"bbox_reg_param": {"bbox_mean": MEAN, "bbox_std": STD}},
    inputs=[MOVES, REGIONS],
    outputs=[reference(MOVES, REGIONS, MEAN, STD)],
)
test_without_normalization = case(
    "DecodeBBox",
    inputs=[MOVES, REGIONS[:, :, None, None]],
    outputs=[reference(MOVES, REGIONS, [0] * 4, [1] * 4)],
)
test_rejects_moves_without_8_values = rejects(
    "DecodeBBox", inputs=[noise(4, 4), REGIONS], text="moves must be of shape (R, 8), got (4, 4)"
)
test_rejects_regions_without_5_values = rejects(
    "DecodeBBox", inputs=[MOVES, noise(4, 6)], text="regions must be of shape (R, 5), got (4, 6)"
)
test_rejects_different_numbers_of_moves_and_regions = rejects(
    "DecodeBBox", inputs=[MOVES, REGIONS[:3]], text="there are box offsets for 4 regions, expected 3"
)
test_rejects_bbox_std_of_0 = rejects(
    "DecodeBBox",
    {"bbox_reg_param": {"bbox_mean": MEAN, "bbox_std": [0.0, 1.0, 1.0, 1.0]}},
    inputs=[MOVES, REGIONS],
    text="bbox_std must be positive, got [0.0, 1.0, 1.0, 1.0]",
)
