"""Morphology."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import Enum, Operation, attribute, layer, need
from anylayer.layers.tensorflow._spatial import extent, spatial, windows


@layer("Dilation2D")
class Dilation2D(Operation):
    """The largest sum of a window's values and a filter (height, width, channels); padding never wins."""

    strides: tuple[int, ...] = attribute("int64", repeated=True)
    rates: tuple[int, ...] = attribute("int64", repeated=True)
    padding: str = attribute(Enum("SAME", "VALID"))

    def forward(self, x: Any, w: Any) -> Any:
        need(
            len(x.shape) == 4 and len(w.shape) == 3 and w.shape[2] == x.shape[3],
            f"pictures (N, H, W, C) and a filter (h, w, C) are needed, got {tuple(x.shape)} and {tuple(w.shape)}",
        )
        steps, rates = (spatial(v, "NHWC", 4, n) for v, n in ((self.strides, "strides"), (self.rates, "rates")))
        reach = [extent(k, r) for k, r in zip(w.shape, rates)]
        need(w.shape[0] * w.shape[1] <= 4096, f"a filter of {w.shape[0]} x {w.shape[1]} has more than 4096 cells")
        pairs = windows(self.padding, x.shape[1:3], reach, steps)
        wide = np.pad(x, [(0, 0), *pairs, (0, 0)], constant_values=np.finfo(np.float32).min)
        counts = [(n - e) // s + 1 for n, e, s in zip(wide.shape[1:3], reach, steps)]
        need(min(counts) > 0, f"a filter of {reach} cells does not fit {tuple(x.shape)}")
        best: Any = None
        for i in range(w.shape[0]):
            for j in range(w.shape[1]):
                rows, columns = (
                    slice(c * r, c * r + (n - 1) * s + 1, s) for c, r, n, s in zip((i, j), rates, counts, steps)
                )
                part = wide[:, rows, columns] + w[i, j]
                best = part if best is None else np.maximum(best, part)
        return best
