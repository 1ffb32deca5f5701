"""Morphological operations."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np

from anylayer.layer import Array, Enum, attribute, layer, need
from anylayer.layers.tensorflow._base import TensorFlowLayer
from anylayer.layers.tensorflow._spatial import patches, spatial


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
        pixels = patches(x, w.shape[:2], steps, rates, self.padding, float(np.finfo(np.float32).min))
        cells = [w[i, j] for i in range(w.shape[0]) for j in range(w.shape[1])]
        return reduce(np.maximum, [p + c for p, c in zip(pixels, cells)])
