"""Correlation: FlowNet's comparison of patches."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.network import Array
from tests.layers.harness import case, noise, rejects

F = np.float32


def reference(a: Array, b: Array, p: dict[str, Any]) -> Array:
    """Compute correlation_layer.cpp (sizes) and CorrelateData of correlation_layer.cu one patch at a time."""
    k, far, pad = p["kernel_size"], p["max_displacement"], p.get("pad", 0)
    s1, s2, subtract = p.get("stride_1", 1), p.get("stride_2", 1), p.get("correlation_type") == "SUBTRACT"
    around = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    a, b = np.pad(a, around), np.pad(b, around)
    n, c, h, w = a.shape
    border = far + (k - 1) // 2
    tall, wide = -(-(h - 2 * border) // s1), -(-(w - 2 * border) // s1)
    radius = far // s2
    grid = 2 * radius + 1
    y = np.zeros((n, grid * grid, tall, wide), F)
    for channel, i, j in np.ndindex(grid * grid, tall, wide):
        y1, x1 = i * s1 + far, j * s1 + far
        y2, x2 = y1 + (channel // grid - radius) * s2, x1 + (channel % grid - radius) * s2
        first, second = a[:, :, y1 : y1 + k, x1 : x1 + k], b[:, :, y2 : y2 + k, x2 : x2 + k]
        terms = np.abs(first - second) if subtract else first * second
        y[:, channel, i, j] = terms.sum(axis=(1, 2, 3)) / F(k * k * c)
    return y


def agrees(p: dict[str, Any], *shape: int, **given: Any) -> Any:
    xs = [noise(*shape), noise(*shape, seed=1)]
    return case("Correlation", p, inputs=xs, outputs=[reference(*xs, p)], **given)


test_as_in_flownet = agrees(
    {"pad": 4, "kernel_size": 1, "max_displacement": 4, "stride_1": 1, "stride_2": 2}, 2, 5, 7, 9
)
test_kernel = agrees({"pad": 3, "kernel_size": 3, "max_displacement": 2}, 1, 2, 6, 7)
test_strides = agrees(
    {"pad": 5, "kernel_size": 3, "max_displacement": 4, "stride_1": 2, "stride_2": 3}, 1, 3, 8, 11
)
test_without_pad = agrees({"kernel_size": 1, "max_displacement": 2}, 1, 2, 7, 6)
test_distances = agrees(
    {"pad": 3, "kernel_size": 3, "max_displacement": 2, "stride_1": 2, "correlation_type": "SUBTRACT"}, 2, 2, 6, 7
)
test_no_displacement = agrees({"kernel_size": 1, "max_displacement": 0}, 1, 4, 3, 3)
test_absolute_value_has_no_effect = agrees(
    {"kernel_size": 1, "max_displacement": 1, "do_abs": 1}, 1, 2, 4, 4, notes=["do_abs has no effect"]
)


def rejected(p: dict[str, Any], text: str, *shapes: tuple[int, ...]) -> Any:
    shapes = shapes or ((1, 2, 4, 4),) * 2
    return rejects("Correlation", p, inputs=[noise(*s) for s in shapes], text=text)


test_rejects_even_kernel_size = rejected(
    {"kernel_size": 2, "max_displacement": 1}, "kernel_size must be odd, got 2"
)
test_rejects_missing_kernel_size = rejected({"max_displacement": 1}, "parameter 'kernel_size' is missing")
test_rejects_stride_2_below_1 = rejected(
    {"kernel_size": 1, "max_displacement": 1, "stride_2": 0}, "stride_2 must be at least 1, got 0"
)
test_rejects_displacement_beyond_map = rejected(
    {"kernel_size": 1, "max_displacement": 2},
    "kernel_size=1 and max_displacement=2 do not fit a map of 4 x 4 with pad=0",
)
test_rejects_inputs_of_different_shapes = rejected(
    {"kernel_size": 1, "max_displacement": 1},
    "input 1 must be of shape (1, 2, 4, 4), as input 0, got (1, 3, 4, 4)",
    (1, 2, 4, 4),
    (1, 3, 4, 4),
)
