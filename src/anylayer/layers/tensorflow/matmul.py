"""Products of matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import Operation, attribute, layer, need


@layer("MatMul")
class MatMul(Operation):
    """The product of two matrices, either of them transposed."""

    transpose_a: bool = attribute("bool", False)
    transpose_b: bool = attribute("bool", False)
    harmless = frozenset({"grad_a", "grad_b"})

    def forward(self, a: Any, b: Any) -> Any:
        need(
            len(a.shape) == len(b.shape) == 2,
            f"two matrices are multiplied, got shapes {tuple(a.shape)} and {tuple(b.shape)}",
        )
        a, b = (a.T if self.transpose_a else a), (b.T if self.transpose_b else b)
        need(a.shape[1] == b.shape[0], f"{a.shape[1]} columns do not fit {b.shape[0]} rows")
        return a @ b


@layer("BatchMatMul")
@layer("BatchMatMulV2")
@layer("BatchMatMulV3")
class BatchMatMul(Operation):
    """Products of the last two axes, either of them transposed."""

    adj_x: bool = attribute("bool", False)
    adj_y: bool = attribute("bool", False)
    harmless = frozenset({"grad_x", "grad_y"})

    def forward(self, a: Any, b: Any) -> Any:
        need(
            min(len(a.shape), len(b.shape)) >= 2,
            f"arrays of 2 axes or more are multiplied, got shapes {tuple(a.shape)} and {tuple(b.shape)}",
        )
        a, b = (a.swapaxes(-1, -2) if self.adj_x else a), (b.swapaxes(-1, -2) if self.adj_y else b)
        need(a.shape[-1] == b.shape[-2], f"{a.shape[-1]} columns do not fit {b.shape[-2]} rows")
        return a @ b


@layer("Einsum")
class Einsum(Operation):
    """Sums of products over named axes."""

    equation: str = attribute("string")

    def forward(self, *xs: Any) -> Any:
        return np.einsum(self.equation, *xs)
