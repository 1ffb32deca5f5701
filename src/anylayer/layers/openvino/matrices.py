"""Matrix products, attention and Einstein sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import OpenVINOLayer
from anylayer.network import Array


@layer("MatMul")
class MatMul(OpenVINOLayer):
    """Multiply the matrices in the last two axes: a @ b, each optionally transposed.

    (..., M, K) and (..., K, N) to (..., M, N), where the leading axes broadcast. An input of rank 1 is a row on
    the left, a column on the right, and is never transposed.
    Source: OpenVINO operation specification, MatMul-1.
    """

    transpose_a: bool = attribute("bool", False)
    transpose_b: bool = attribute("bool", False)

    def forward(self, a: Array, b: Array) -> Array:
        if self.transpose_a and len(a.shape) > 1:
            a = np.swapaxes(a, -1, -2)
        if self.transpose_b and len(b.shape) > 1:
            b = np.swapaxes(b, -1, -2)
        return a @ b


@layer("ScaledDotProductAttention")
class ScaledDotProductAttention(OpenVINOLayer):
    """Compute softmax(q @ k^T * scale + mask) @ v.

    q (..., T, E), k (..., S, E) and v (..., S, D) to (..., T, D). The scale is 1 / sqrt(E) when it is not given. A
    boolean mask states which positions are attended to; with `causal`, those after the query are not.
    Source: OpenVINO operation specification, ScaledDotProductAttention-13.
    """

    causal: bool = attribute("bool", False)

    def forward(
        self, q: Array, k: Array, v: Array, mask: Array | None = None, scale: Any = None, sink: Any = None
    ) -> Array:
        need(sink is None, "the sixth input, sink, is not supported")
        factor = q.dtype.type(1 / math.sqrt(q.shape[-1])) if scale is None else scale
        scores = (q * factor) @ np.swapaxes(k, -1, -2)
        lowest = np.asarray(-np.inf, q.dtype)
        if self.causal:
            seen = np.tril(np.ones((q.shape[-2], k.shape[-2]), np.bool_))
            scores = np.where(seen, scores, lowest)
        elif mask is not None:
            scores = np.where(mask, scores, lowest) if mask.dtype == np.bool_ else scores + mask
        return ops.softmax(scores, axis=len(scores.shape) - 1) @ v


@layer("Einsum")
class Einsum(OpenVINOLayer):
    """Compute numpy.einsum(equation, *inputs): sums of products over the axes that `equation` labels.

    Source: OpenVINO operation specification, Einsum-7.
    """

    equation: str = attribute("string")

    def forward(self, *inputs: Array) -> Any:
        need("->" in self.equation or len(inputs) > 0, "takes at least one input")
        return np.einsum(self.equation.replace(" ", ""), *inputs)
