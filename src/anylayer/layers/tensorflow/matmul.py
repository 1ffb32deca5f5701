"""Matrix products and Einstein sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import TensorFlowLayer, attribute, layer, need
from anylayer.network import Array


@layer("MatMul")
class MatMul(TensorFlowLayer):
    """Multiply two matrices: a @ b, each optionally transposed.

    (M, K) and (K, N) to (M, N), where transpose_a and transpose_b say that the file holds (K, M) and (N, K).
    Source: tf.raw_ops.MatMul; tensorflow/core/kernels/matmul_op_impl.h.
    """

    transpose_a: bool = attribute("bool", False)
    transpose_b: bool = attribute("bool", False)
    harmless = frozenset({"grad_a", "grad_b"})

    def forward(self, a: Array, b: Array) -> Array:
        need(
            len(a.shape) == len(b.shape) == 2,
            f"both inputs must be matrices (2 axes), got shapes {tuple(a.shape)} and {tuple(b.shape)}",
        )
        a, b = (a.T if self.transpose_a else a), (b.T if self.transpose_b else b)
        need(
            a.shape[1] == b.shape[0],
            f"a has {a.shape[1]} columns, but b has {b.shape[0]} rows; both must be equal",
        )
        return a @ b


@layer("BatchMatMul")
@layer("BatchMatMulV2")
@layer("BatchMatMulV3")
class BatchMatMul(TensorFlowLayer):
    """Multiply the matrices in the last two axes: a @ b, each optionally transposed.

    (..., M, K) and (..., K, N) to (..., M, N). The leading axes broadcast as in NumPy. adj_x and adj_y say that
    the matrices are transposed first.
    Source: tf.raw_ops.BatchMatMul, tf.raw_ops.BatchMatMulV2, tf.raw_ops.BatchMatMulV3;
    tensorflow/core/kernels/matmul_op_impl.h.
    """

    adj_x: bool = attribute("bool", False)
    adj_y: bool = attribute("bool", False)
    harmless = frozenset({"grad_x", "grad_y"})

    def forward(self, a: Array, b: Array) -> Array:
        need(
            min(len(a.shape), len(b.shape)) >= 2,
            f"both inputs must have 2 axes or more, got shapes {tuple(a.shape)} and {tuple(b.shape)}",
        )
        a, b = (a.swapaxes(-1, -2) if self.adj_x else a), (b.swapaxes(-1, -2) if self.adj_y else b)
        need(
            a.shape[-1] == b.shape[-2],
            f"a has {a.shape[-1]} columns, but b has {b.shape[-2]} rows; both must be equal",
        )
        return a @ b


@layer("Einsum")
class Einsum(TensorFlowLayer):
    """Compute numpy.einsum(equation, *inputs): sums of products over the axes that `equation` labels.

    Source: tf.raw_ops.Einsum; tensorflow/core/kernels/linalg/einsum_op_impl.h.
    """

    equation: str = attribute("string")

    def forward(self, *xs: Array) -> Any:
        return np.einsum(self.equation, *xs)
