"""Correlation1D: DispNet's comparison of patches along rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.harness import case, noise, rejects

F = np.float32


def reference(a: Array, b: Array, p: dict[str, Any]) -> Array:
    """Compute correlation_layer1d.cpp and correlation_layer1d.cu one patch at a time.

    Cells left of the padded row are 0.
    """
    k, far, pad = p["kernel_size"], p["max_displacement"], p.get("pad", 0)
    s1, s2, way = p.get("stride_1", 1), p.get("stride_2", 1), p.get("single_direction", 0)
    a, b = (np.pad(x, ((0, 0), (0, 0), (0, 0), (pad, pad))) for x in (a, b))
    n, c, h, w = a.shape
    tall, wide = -(-(h - (k - 1)) // s1), -(-(w - 2 * far - (k - 1)) // s1)
    radius = far // s2
    grid = radius + 1 if way else 2 * radius + 1
    shift = {0: -radius, -1: -grid, 1: 0}[way]
    y = np.zeros((n, grid, tall, wide), F)
    for channel, i, j in np.ndindex(grid, tall, wide):
        y1, x1 = i * s1, j * s1 + far
        x2 = x1 + (channel + shift) * s2
        for q, r in np.ndindex(k, k):
            first = a[:, :, y1 + q, x1 + r]
            second = b[:, :, y1 + q, x2 + r] if x2 + r >= 0 else np.zeros_like(first)
            terms = np.abs(first - second) if p.get("correlation_type") == "SUBTRACT" else first * second
            y[:, channel, i, j] += terms.sum(axis=1) / F(k * k * c)
    return y


def agrees(p: dict[str, Any], *shape: int) -> Any:
    xs = [noise(*shape), noise(*shape, seed=1)]
    return case("Correlation1D", p, inputs=xs, outputs=[reference(*xs, p)])


test_as_in_dispnet = agrees(
    {"pad": 4, "kernel_size": 1, "max_displacement": 4, "stride_2": 1, "single_direction": -1}, 2, 3, 5, 12
)
test_both_ways = agrees({"pad": 4, "kernel_size": 1, "max_displacement": 4, "stride_2": 2}, 1, 3, 5, 9)
test_to_the_right = agrees({"pad": 3, "kernel_size": 3, "max_displacement": 2, "single_direction": 1}, 1, 2, 6, 8)
test_strides = agrees(
    {"pad": 3, "kernel_size": 3, "max_displacement": 3, "stride_1": 2, "stride_2": 2}, 1, 2, 7, 9
)
test_distances = agrees(
    {"pad": 3, "kernel_size": 1, "max_displacement": 2, "correlation_type": "SUBTRACT"}, 1, 2, 4, 7
)


def rejected(p: dict[str, Any], text: str) -> Any:
    return rejects("Correlation1D", p, inputs=[noise(1, 2, 4, 9)] * 2, text=text)


test_rejects_single_direction_outside_minus_1_to_1 = rejected(
    {"kernel_size": 1, "max_displacement": 1, "single_direction": 2}, "single_direction must be -1, 0 or 1, got 2"
)
test_rejects_displacement_left_of_padded_row = rejected(
    {"kernel_size": 1, "max_displacement": 2, "stride_2": 2, "single_direction": -1, "pad": 1},
    "single_direction=-1 reads 2 columns before the padded row, where the reference reads the row above; pad must "
    "be at least 2, got 1",
)
