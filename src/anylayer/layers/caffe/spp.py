"""SPP (spatial pyramid pooling)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.graph.symbolic import is_symbolic
from anylayer.layer import Enum, Layer, field, layer, need
from anylayer.layers.caffe._messages import engine_field
from anylayer.layers.caffe.pooling import Line, lines_of, pool
from anylayer.network import Array


@layer("SPP")
class SPP(Layer):
    """Pool into 1, 4, 16, ... windows and concatenate them (spatial pyramid pooling).

    (N, C, H, W) to (N, C * windows), or (N, C, 1, 1) with `pyramid_height: 1`.
    Source: BVLC/caffe src/caffe/layers/spp_layer.cpp; arXiv 1406.4729.
    """

    message = "spp_param"
    numbers = {"": 132}
    pyramid_height: int = field(1, "uint32", doc="number of levels; level i has 2 ** i windows per side")
    pool: str = field(2, Enum("MAX", "AVE", "STOCHASTIC"), "MAX", doc="method")
    engine: str = engine_field(6)

    def setup(self) -> None:
        need(1 <= self.pyramid_height <= 16, f"pyramid_height must lie in 1..16, got {self.pyramid_height}")
        need(
            self.pool != "STOCHASTIC",
            "pool STOCHASTIC selects random cells, so its output is not defined; Caffe has it on GPUs only",
        )

    def forward(self, x: Array) -> Any:
        need(len(x.shape) == 4, f"needs an input of 4 axes (N, C, H, W), got shape {tuple(x.shape)}")
        n, _, height, width = x.shape
        need(height > 0 and width > 0, f"needs a map with pixels, got shape {tuple(x.shape)}")
        if is_symbolic(height) or is_symbolic(width):
            levels = [_symbolic_level(x, self.pool, level) for level in range(self.pyramid_height)]
        else:
            levels = [pool(x, self.pool, _lines(height, width, level)) for level in range(self.pyramid_height)]
        if len(levels) == 1:
            return levels[0]
        return np.concatenate([y.reshape(n, -1) for y in levels], axis=1)


def _lines(height: int, width: int, level: int) -> tuple[Line, Line]:
    (tall, top), (wide, left) = _window(height, level), _window(width, level)
    for size, kernel, pad in ((height, tall, top), (width, wide, left)):
        need(
            pad < kernel,
            f"level {level} cuts {size} cells into {2**level} windows of {kernel}, which needs a padding of {pad}"
            ": it must be less than the window",
        )
    return lines_of((height, width), (tall, wide), (tall, wide), (top, left), ceil=True)


def _window(size: int, level: int) -> tuple[int, int]:
    """Return the cells of each window along an axis, and the padding before the map."""
    bins = 2**level
    kernel = -(-size // bins)
    return kernel, (kernel * bins - size + 1) // 2


def _symbolic_level(x: Array, method: str, level: int) -> Any:
    """Return a level for a map of any size: the padded map is reshaped into its windows, which do not overlap."""
    n, c, *sizes = x.shape
    bins = 2**level
    _lines(sizes[0], sizes[1], level)
    windows = [_window(size, level) for size in sizes]
    pads = [(pad, kernel * bins - size - pad) for size, (kernel, pad) in zip(sizes, windows)]
    lowest = np.finfo(np.float32).min if method == "MAX" else 0
    padded = np.pad(x, [(0, 0), (0, 0), *pads], constant_values=np.float32(lowest))
    parts = padded.reshape(n, c, bins, windows[0][0], bins, windows[1][0])
    return parts.max((3, 5)) if method == "MAX" else parts.mean((3, 5))
