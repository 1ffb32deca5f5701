"""Matrix products and Einstein sums."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Array, attribute, need
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer


def _product(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    """Return a @ b of the matrices in the last two axes, each optionally transposed."""
    a, b = (a.swapaxes(-1, -2) if transpose_a else a), (b.swapaxes(-1, -2) if transpose_b else b)
    need(
        a.shape[-1] == b.shape[-2],
        f"a has {a.shape[-1]} columns, but b has {b.shape[-2]} rows; both must be equal",
    )
    return a @ b


def _matmul(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    need(
        len(a.shape) == len(b.shape) == 2,
        f"both inputs must be matrices (2 axes), got shapes {tuple(a.shape)} and {tuple(b.shape)}",
    )
    return _product(a, b, transpose_a, transpose_b)


def _batch_matmul(a: Array, b: Array, adj_x: bool, adj_y: bool) -> Array:
    need(
        min(len(a.shape), len(b.shape)) >= 2,
        f"both inputs must have 2 axes or more, got shapes {tuple(a.shape)} and {tuple(b.shape)}",
    )
    return _product(a, b, adj_x, adj_y)


_FLAG = attribute("bool", False)
_BATCHES = row("Multiply the matrices in the last two axes: a @ b, each optionally transposed.", _batch_matmul,
    "matmul_op_impl.h",
    "(..., M, K) and (..., K, N) to (..., M, N). The leading axes broadcast as in NumPy. adj_x and adj_y say that "
    "the matrices are transposed first.",
    {"harmless": frozenset({"grad_x", "grad_y"})}, adj_x=_FLAG, adj_y=_FLAG)  # fmt: skip

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "MatMul": row("Multiply two matrices: a @ b, each optionally transposed.", _matmul, "matmul_op_impl.h",
            "(M, K) and (K, N) to (M, N), where transpose_a and transpose_b say that the file holds (K, M) and "
            "(N, K).",
            {"harmless": frozenset({"grad_a", "grad_b"})}, transpose_a=_FLAG, transpose_b=_FLAG),
        **dict.fromkeys(("BatchMatMul", "BatchMatMulV2", "BatchMatMulV3"), _BATCHES),
        "Einsum": row(
            "Compute numpy.einsum(equation, *inputs): sums of products over the axes that `equation` labels.",
            lambda *xs, equation: np.einsum(equation, *xs), "linalg/einsum_op_impl.h",
            equation=attribute("string")),
    },
)  # fmt: skip
