"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation


@layer("MatMul")
class MatMul(Operation):
    """The product of matrices; axes before the last two are broadcast.

    A single axis is a row on the left, a column on the right, and is not transposed. Source: OpenVINO, MatMul-1.
    """

    transpose_a: bool = attribute("bool", False)
    transpose_b: bool = attribute("bool", False)

    def forward(self, a: Any, b: Any) -> Any:
        if self.transpose_a and len(a.shape) > 1:
            a = np.swapaxes(a, -1, -2)
        if self.transpose_b and len(b.shape) > 1:
            b = np.swapaxes(b, -1, -2)
        return a @ b


@layer("Einsum")
class Einsum(Operation):
    """Sums of products, by Einstein's convention.

    Source: OpenVINO, Einsum-7.
    """

    equation: str = attribute("string")

    def forward(self, *inputs: Any) -> Any:
        need("->" in self.equation or len(inputs) > 0, "takes at least one input")
        return np.einsum(self.equation.replace(" ", ""), *inputs)
