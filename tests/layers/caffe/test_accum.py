"""Accum: FlowNet's inputs of several sizes."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.harness import case, noise, ramp, rejects

F = np.float32


def resized(x: Array, tall: int, wide: int) -> Array:
    """Compute accum_layer.cpp one pixel at a time."""
    n, c, h, w = x.shape
    y = np.zeros((n, c, tall, wide), F)
    for i, j in np.ndindex(tall, wide):
        across = F(j) / F(wide - 1) * F(w - 1) if wide > 1 else F(0)
        down = F(i) / F(tall - 1) * F(h - 1) if tall > 1 else F(0)
        left, top = int(across), int(down)
        a, b = across - F(left), down - F(top)
        right, low = min(left + 1, w - 1), min(top + 1, h - 1)
        y[:, :, i, j] = (
            (1 - a) * (1 - b) * x[:, :, top, left] + a * b * x[:, :, low, right]
            + (1 - a) * b * x[:, :, low, left] + a * (1 - b) * x[:, :, top, right]
        )  # fmt: skip
    return y


def agrees(
    params: dict[str, Any], size: tuple[int, int], *shapes: tuple[int, ...], reference: bool = False
) -> Any:
    xs = [noise(*s, seed=i) for i, s in enumerate(shapes)]
    parts = xs[:-1] if reference else xs
    return case("Accum", params, inputs=xs, outputs=[np.concatenate([resized(x, *size) for x in parts], axis=1)])


test_largest = agrees({}, (9, 12), (2, 3, 9, 5), (2, 2, 4, 12))
test_one_input_stays = case("Accum", inputs=[ramp(1, 2, 3, 4)], outputs=[ramp(1, 2, 3, 4)])
test_size = agrees({"top_height": 11, "top_width": 17}, (11, 17), (1, 2, 4, 6), (1, 1, 8, 9))
test_size_that_is_larger_in_one_direction_counts_for_none = agrees(
    {"top_height": 11, "top_width": 9}, (8, 9), (1, 2, 4, 6), (1, 1, 8, 9)
)
test_divisible = agrees({"size_divisible_by": 8}, (16, 24), (1, 2, 9, 20))
test_divisible_already = agrees({"size_divisible_by": 5}, (10, 17), (1, 1, 10, 17))
REFERENCE = {"have_reference": 1}
test_reference = agrees(REFERENCE, (7, 10), (2, 3, 4, 5), (2, 1, 9, 14), (2, 6, 7, 10), reference=True)
test_reference_gives_its_size_alone = agrees(REFERENCE, (5, 6), (1, 3, 5, 3), (4, 1, 5, 6), reference=True)
test_one_row = agrees({}, (1, 7), (1, 2, 1, 3), (1, 2, 1, 7))


def rejected(params: dict[str, Any], text: str, *shapes: tuple[int, ...]) -> Any:
    return rejects("Accum", params, inputs=[noise(*s) for s in shapes], text=text)


test_rejects_size_divisible_by_below_1 = rejected(
    {"size_divisible_by": 0}, "size_divisible_by must be at least 1, got 0", (1, 1, 2, 2)
)
test_reference_is_missing = rejected(REFERENCE, "takes 2 inputs or more, got 1", (1, 1, 2, 2))
test_rejects_different_numbers_of_images = rejected(
    {}, "inputs must have as many images: input 0 has 1, input 1 2", (1, 1, 2, 2), (2, 1, 2, 2)
)
test_rejects_one_output_row_for_several_input_rows = rejected(
    REFERENCE,
    "an output of 1 row is not defined for an input of 4, because the reference divides by 0",
    (1, 1, 4, 4),
    (1, 1, 1, 4),
)
test_rejects_input_without_4_axes = rejected({}, "input 0 must be of shape (N, C, H, W), got (2, 3)", (2, 3))
