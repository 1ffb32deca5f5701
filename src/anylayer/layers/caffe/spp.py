"""SPP (spatial pyramid pooling)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Enum, Layer, field, layer, need
from anylayer.layers.caffe._messages import ENGINE
from anylayer.layers.caffe.pooling import Line, pool


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
    engine: str = field(6, ENGINE, "DEFAULT", doc="Caffe's implementation; no effect here")

    def setup(self) -> None:
        need(1 <= self.pyramid_height <= 16, f"pyramid_height must lie in 1..16, got {self.pyramid_height}")
        need(
            self.pool != "STOCHASTIC",
            "pool STOCHASTIC selects random cells, so its output is not defined; Caffe has it on GPUs only",
        )

    def forward(self, x: Any) -> Any:
        need(len(x.shape) == 4, f"needs an input of 4 axes (N, C, H, W), got shape {tuple(x.shape)}")
        n, _, height, width = x.shape
        need(height > 0 and width > 0, f"needs a map with pixels, got shape {tuple(x.shape)}")
        levels = [
            pool(x, self.pool, (_line(height, level), _line(width, level))) for level in range(self.pyramid_height)
        ]
        if len(levels) == 1:
            return levels[0]
        return np.concatenate([y.reshape(n, -1) for y in levels], axis=1)


def _line(size: int, level: int) -> Line:
    bins = 2**level
    kernel = -(-size // bins)
    pad = (kernel * bins - size + 1) // 2
    need(
        pad < kernel,
        f"level {level} cuts {size} cells into {bins} windows of {kernel}, which needs a padding of {pad}: "
        "it must be less than the window",
    )
    return Line.of(size, kernel, kernel, pad, ceil=True)
