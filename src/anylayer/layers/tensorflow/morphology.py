"""Morphological operations."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import Enum, TensorFlowLayer, attribute, layer, need
from anylayer.layers.tensorflow._spatial import extent, spatial, windows
from anylayer.network import Array


@layer("Dilation2D")
class Dilation2D(TensorFlowLayer):
    """Compute the maximum over each window of the values plus a filter.

    (N, H, W, C) with a filter (height, width, C) to (N, H', W', C). rates are the dilations of the window. Padded
    cells hold the lowest float32, so that they are never the maximum.
    Source: tf.raw_ops.Dilation2D; tensorflow/core/kernels/dilation_ops.cc.
    """

    strides: tuple[int, ...] = attribute("int64", repeated=True)
    rates: tuple[int, ...] = attribute("int64", repeated=True)
    padding: str = attribute(Enum("SAME", "VALID"))

    def forward(self, x: Array, w: Array) -> Any:
        need(
            len(x.shape) == 4 and len(w.shape) == 3 and w.shape[2] == x.shape[3],
            f"expected images (N, H, W, C) and a filter (h, w, C), got {tuple(x.shape)} and {tuple(w.shape)}",
        )
        steps, rates = (spatial(v, "NHWC", 4, n) for v, n in ((self.strides, "strides"), (self.rates, "rates")))
        reach = [extent(k, r) for k, r in zip(w.shape, rates)]
        need(
            w.shape[0] * w.shape[1] <= 4096,
            f"a filter of {w.shape[0]} x {w.shape[1]} cells exceeds the limit of 4096",
        )
        pairs = windows(self.padding, x.shape[1:3], reach, steps)
        wide = np.pad(x, [(0, 0), *pairs, (0, 0)], constant_values=np.finfo(np.float32).min)
        counts = [(n - e) // s + 1 for n, e, s in zip(wide.shape[1:3], reach, steps)]
        need(min(counts) > 0, f"a filter with an extent of {reach} cells does not fit the input {tuple(x.shape)}")
        best: Any = None
        for i in range(w.shape[0]):
            for j in range(w.shape[1]):
                rows, columns = (
                    slice(c * r, c * r + (n - 1) * s + 1, s) for c, r, n, s in zip((i, j), rates, counts, steps)
                )
                part = wide[:, rows, columns] + w[i, j]
                best = part if best is None else np.maximum(best, part)
        return best
