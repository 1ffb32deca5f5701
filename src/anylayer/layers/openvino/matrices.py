"""Matrix products, attention and Einstein sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, need
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer


def _matmul(a: Array, b: Array, transpose_a: bool, transpose_b: bool) -> Array:
    if transpose_a and len(a.shape) > 1:
        a = np.swapaxes(a, -1, -2)
    if transpose_b and len(b.shape) > 1:
        b = np.swapaxes(b, -1, -2)
    return a @ b


def _attention(
    q: Array, k: Array, v: Array, mask: Any = None, scale: Any = None, sink: Any = None, *, causal: bool
) -> Array:
    need(sink is None, "the sixth input, sink, is not supported")
    factor = q.dtype.type(1 / math.sqrt(q.shape[-1])) if scale is None else scale
    scores = (q * factor) @ np.swapaxes(k, -1, -2)
    lowest = np.asarray(-np.inf, q.dtype)
    if causal:
        seen = np.tril(np.ones((q.shape[-2], k.shape[-2]), np.bool_))
        scores = np.where(seen, scores, lowest)
    elif mask is not None:
        scores = np.where(mask, scores, lowest) if mask.dtype == np.bool_ else scores + mask
    return ops.softmax(scores, axis=len(scores.shape) - 1) @ v


def _einsum(*inputs: Array, equation: str) -> Array:
    need("->" in equation or len(inputs) > 0, "takes at least one input")
    return np.einsum(equation.replace(" ", ""), *inputs)


operators(
    OpenVINOLayer,
    SPECIFICATION,
    {
        "MatMul": row("Multiply the matrices in the last two axes: a @ b, each optionally transposed.", _matmul,
            "MatMul-1",
            "(..., M, K) and (..., K, N) to (..., M, N), where the leading axes broadcast. An input of rank 1 is "
            "a row on the left, a column on the right, and is never transposed.",
            transpose_a=attribute("bool", False), transpose_b=attribute("bool", False)),
        "ScaledDotProductAttention": row("Compute softmax(q @ k^T * scale + mask) @ v.", _attention,
            "ScaledDotProductAttention-13",
            "q (..., T, E), k (..., S, E) and v (..., S, D) to (..., T, D). The scale is 1 / sqrt(E) when it is "
            "not given. A boolean mask states which positions are attended to; with `causal`, those after the "
            "query are not.",
            causal=attribute("bool", False)),
        "Einsum": row(
            "Compute numpy.einsum(equation, *inputs): sums of products over the axes that `equation` labels.",
            _einsum, "Einsum-7", equation=attribute("string")),
    },
)  # fmt: skip
