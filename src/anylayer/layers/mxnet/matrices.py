"""Matrix products, and those of attention."""

from __future__ import annotations

import math

import numpy as np

from anylayer import ops
from anylayer.errors import plural
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


def _heads(x: Array, heads: int, count: int) -> list[Array]:
    """Return the parts, such as queries, keys and values, of (T, N, heads * count * D), each (N * heads, T, D)."""
    need(len(x.shape) == 3, f"the input must have 3 axes, got shape {tuple(x.shape)}")
    t, n, size = x.shape
    fits = heads > 0 and size % (heads * count) == 0
    need(fits, f"heads={heads} with {plural(count, 'part')} each do not divide {size} values")
    parts = x.reshape(t, n * heads, count, size // (heads * count))
    return [parts[:, :, i].transpose(1, 0, 2) for i in range(count)]


def _scores(query: Array, key: Array) -> Array:
    return (query * query.dtype.type(1 / math.sqrt(query.shape[-1]))) @ key.transpose(0, 2, 1)


def _attend(x: Array, weights: Array, heads: int, count: int) -> Array:
    y: Array = (weights @ _heads(x, heads, count)[-1]).transpose(1, 0, 2)
    return y.reshape(y.shape[0], x.shape[1], x.shape[2] // count)


def _gemm(a: Array, b: Array, c: Array, *, alpha: float, beta: float, **transposed: bool) -> Array:
    return _matmul(a, b, alpha=alpha, **transposed) + c * c.dtype.type(beta)


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
        "_linalg_gemm linalg_gemm": row("Compute alpha * a @ b + beta * c for the matrices on the last two axes.",
            _gemm, "tensor/la_op.cc", "", {"neutral": {"axis": -2}}, alpha=attribute("double", 1.0),
            beta=attribute("double", 1.0), **_TRANSPOSED),
        "_linalg_syrk linalg_syrk": row("Compute alpha * a @ a^T, or with transpose alpha * a^T @ a.",
            lambda a, transpose, alpha: _matmul(a, a, transpose, not transpose, alpha), "tensor/la_op.cc",
            transpose=FLAG, alpha=attribute("double", 1.0)),
        "_contrib_interleaved_matmul_encdec_qk": row("Compute the scores of attention.",
            lambda x, other, heads: _scores(_heads(x, heads, 1)[0], _heads(other, heads, 2)[0]),
            "contrib/transformer.cc",
            "Queries (T, N, heads * D) and (T', N, heads * 2 * D), with a key and a value per head, to (N * "
            "heads, T, T').", heads=INT),
        "_contrib_interleaved_matmul_encdec_valatt": row("Sum the values of attention with weights.",
            lambda x, weights, heads: _attend(x, weights, heads, 2), "contrib/transformer.cc",
            "The inputs (T', N, heads * 2 * D) and (N * heads, T, T') to (T, N, heads * D).", heads=INT),
        "_contrib_interleaved_matmul_selfatt_qk": row("Compute the scores of self-attention.",
            lambda x, heads: _scores(*_heads(x, heads, 3)[:2]), "contrib/transformer.cc",
            "(T, N, heads * 3 * D), with a query, a key and a value per head, to (N * heads, T, T): query @ key^T "
            "/ sqrt(D).", heads=INT),
        "_contrib_interleaved_matmul_selfatt_valatt": row("Sum the values of self-attention with weights.",
            lambda x, weights, heads: _attend(x, weights, heads, 3), "contrib/transformer.cc",
            "The inputs (T, N, heads * 3 * D) and (N * heads, T, T) to (T, N, heads * D).", heads=INT),
    },
)  # fmt: skip
