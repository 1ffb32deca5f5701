"""Reduction."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from anylayer.layer import Array, Enum, Layer, field, layer
from anylayer.layers.caffe._axes import canonical


@layer("Reduction")
class Reduction(Layer):
    """Reduce all axes from `axis` on to one number, times `coeff`.

    The operation is the sum, the sum of absolute values or squares, or the mean.
    Source: BVLC/caffe src/caffe/layers/reduction_layer.cpp.
    """

    message = "reduction_param"
    numbers = {"": 136}
    operation: str = field(
        1, Enum(SUM=1, ASUM=2, SUMSQ=3, MEAN=4), "SUM", doc="sum, sum of absolute values, sum of squares, mean"
    )
    axis: int = field(2, "int32", 0, doc="first axis to reduce")
    coeff: float = field(3, "float", 1.0, doc="factor of the output")

    def forward(self, x: Array) -> Any:
        axis = canonical(self.axis, x)
        rows = x.reshape((*x.shape[:axis], prod(x.shape[axis:])))
        if self.operation == "ASUM":
            rows = np.abs(rows)
        elif self.operation == "SUMSQ":
            rows = rows * rows
        y = rows.mean(axis=-1) if self.operation == "MEAN" else rows.sum(axis=-1)
        return y if self.coeff == 1 else y * np.float32(self.coeff)
