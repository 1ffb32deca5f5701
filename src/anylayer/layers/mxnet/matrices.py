"""Matrix products, and those of attention."""

from __future__ import annotations

import math

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, need
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import FLAG, INT, need_weights, operators


def _fully_connected(
    x: Array, w: Array, bias: Array | None = None, *, num_hidden: int, no_bias: bool, flatten: bool
) -> Array:
    if flatten:
        x = x.reshape(x.shape[0], math.prod(x.shape[1:]))
    need_weights(w, (num_hidden, x.shape[-1]), bias, num_hidden, no_bias)
    if len(x.shape) == 2:
        return ops.gemm(x, w, bias, trans_b=True)
    y: Array = x @ w.transpose(1, 0)
    return y if bias is None else y + bias


def _dot(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    left = np.moveaxis(a, 0, -1) if transpose_a else a
    right = np.moveaxis(b, -1, 0) if transpose_b else b
    inner, rest = left.shape[-1], right.shape[1:]
    need(inner == right.shape[0], f"the sizes {inner} and {right.shape[0]} of the multiplied axes differ")
    product = left.reshape(math.prod(left.shape[:-1]), inner) @ right.reshape(inner, math.prod(rest))
    return product.reshape((*left.shape[:-1], *rest) or (1,))


def _matmul(a: Array, b: Array, transpose_a: bool, transpose_b: bool, alpha: float = 1.0) -> Array:
    shapes = f"{tuple(a.shape)} and {tuple(b.shape)}"
    need(len(a.shape) == len(b.shape) >= 2, f"needs matrices on the last two axes, got shapes {shapes}")
    need(tuple(a.shape[:-2]) == tuple(b.shape[:-2]), f"the batches of shapes {shapes} differ")
    y: Array = (a.swapaxes(-1, -2) if transpose_a else a) @ (b.swapaxes(-1, -2) if transpose_b else b)
    return y if alpha == 1 else y * a.dtype.type(alpha)


def _heads(x: Array, heads: int) -> list[Array]:
    """Return the query, key and value of (T, N, heads * 3 * D), each as (N * heads, T, D)."""
    need(len(x.shape) == 3, f"the input must have 3 axes, got shape {tuple(x.shape)}")
    t, n, size = x.shape
    need(heads > 0 and size % (heads * 3) == 0, f"heads={heads} with 3 parts each do not divide {size} values")
    parts = x.reshape(t, n * heads, 3, size // (heads * 3))
    return [parts[:, :, i].transpose(1, 0, 2) for i in range(3)]


def _scores(x: Array, heads: int) -> Array:
    query, key, _ = _heads(x, heads)
    scores: Array = (query * x.dtype.type(1 / math.sqrt(query.shape[-1]))) @ key.transpose(0, 2, 1)
    return scores


def _attend(x: Array, weights: Array, heads: int) -> Array:
    y: Array = (weights @ _heads(x, heads)[2]).transpose(1, 0, 2)
    return y.reshape(x.shape[0], x.shape[1], x.shape[2] // 3)


_TRANSPOSED = {"transpose_a": FLAG, "transpose_b": FLAG}
_DENSE = {"neutral": {"forward_stype": None}}
operators(
    {
        "FullyConnected": row("Multiply by the transpose of weights (M, K), and add a bias (M,).",
            _fully_connected, "nn/fully_connected.cc",
            "(N, ...) to (N, M) for inputs of K values per sample; without flatten, (..., K) to (..., M). no_bias "
            "says that there is no third input, the bias.",
            num_hidden=INT, no_bias=FLAG, flatten=attribute("bool", True)),
        "dot": row("Multiply along the last axis of a and the first axis of b.", _dot, "tensor/dot.cc",
            "With transpose_a it is the first axis of a, and with transpose_b the last axis of b.", _DENSE,
            **_TRANSPOSED),
        "batch_dot": row("Multiply batches of matrices.", _matmul, "tensor/dot.cc", "", _DENSE, **_TRANSPOSED),
        "_linalg_gemm2 linalg_gemm2": row("Compute alpha * a @ b for the matrices on the last two axes.", _matmul,
            "tensor/la_op.cc", "", {"neutral": {"axis": -2}}, alpha=attribute("double", 1.0), **_TRANSPOSED),
        "_contrib_div_sqrt_dim": row("Divide by the square root of the size of the last axis.",
            lambda x: x / x.dtype.type(math.sqrt(x.shape[-1])), "contrib/transformer.cc"),
        "_contrib_interleaved_matmul_selfatt_qk": row("Compute the scores of self-attention.", _scores,
            "contrib/transformer.cc",
            "(T, N, heads * 3 * D), with a query, a key and a value per head, to (N * heads, T, T): query @ key^T "
            "/ sqrt(D).", heads=INT),
        "_contrib_interleaved_matmul_selfatt_valatt": row("Sum the values of self-attention with weights.",
            _attend, "contrib/transformer.cc",
            "The inputs (T, N, heads * 3 * D) and (N * heads, T, T) to (T, N, heads * D).", heads=INT),
    },
)  # fmt: skip
