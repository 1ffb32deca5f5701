"""Operators that select by index or by condition."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axis_of
from anylayer.layers._arrays import one_hot
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import DTYPE, FLAG, INT, any_dtypes, operators, training


def _places(indices: Array, size: int, mode: str) -> Array:
    """Return indices within an axis: clipped to it, or modulo its size."""
    whole = indices.astype(np.int64)
    return np.clip(whole, 0, size - 1) if mode == "clip" else np.mod(whole, size)


def _take(x: Array, indices: Array, axis: int, mode: str) -> Array:
    axis = axis_of(axis, len(x.shape))
    return ops.gather(x, _places(indices, x.shape[axis], mode), axis=axis)


def _embed(indices: Array, w: Array, input_dim: int, output_dim: int) -> Array:
    need(tuple(w.shape) == (input_dim, output_dim), f"the weights must be of shape {(input_dim, output_dim)}")
    return ops.gather(w, _places(indices, input_dim, "clip"))


def _pick(x: Array, index: Array, axis: int, keepdims: bool, mode: str) -> Array:
    axis = axis_of(axis, len(x.shape))
    rest = [d for i, d in enumerate(x.shape) if i != axis]
    whole = [*rest[:axis], 1, *rest[axis:]]
    y = ops.gather_elements(x, _places(index, x.shape[axis], mode).reshape(whole), axis)
    return y if keepdims else y.reshape(rest or [1])


def _gather_nd(x: Array, indices: Array) -> Array:
    order = (*range(1, len(indices.shape)), 0)
    return ops.gather_nd(x, indices.astype(np.int64).transpose(order))


def _one_hot(indices: Array, depth: int, on_value: float, off_value: float, dtype: str) -> Array:
    on, off = (np.asarray(value).astype(dtype) for value in (on_value, off_value))
    return one_hot(indices.astype(np.int64), depth, -1, on, off)


def _where(condition: Array, a: Array, b: Array) -> Array:
    shapes = [tuple(x.shape) for x in (condition, a, b)]
    need(a.dtype == b.dtype, f"both values must have one dtype, got {a.dtype} and {b.dtype}")
    need(shapes[1] == shapes[2], f"both values must have one shape, got {shapes[1:]}")
    rows = len(shapes[0]) == 1 and shapes[0][:1] == shapes[1][:1]
    need(rows or shapes[0] == shapes[1], f"the condition must have shape {shapes[1]} or one axis, got {shapes[0]}")
    if rows:
        condition = condition.reshape(-1, *(1,) * (len(a.shape) - 1))
    return np.where(condition != 0, a, b)


_MODE = attribute(Enum("clip", "wrap"), "clip")
_INDEXING = "tensor/indexing_op.cc"
operators(
    {
        "take": row("Select slices along an axis by index.", _take, _INDEXING,
            "Indices out of range are clipped, or with mode wrap taken modulo the size.",
            axis=attribute("int32", 0), mode=_MODE),
        "Embedding": row("Select rows of weights (input_dim, output_dim) by index.", _embed, _INDEXING,
            "Indices out of range are clipped.", training("sparse_grad dtype"), input_dim=INT, output_dim=INT),
        "pick choose_element_0index": row("Select one element along an axis by index.", _pick,
            "tensor/broadcast_reduce_op_index.cc", axis=attribute("int32", -1), keepdims=FLAG, mode=_MODE),
        "gather_nd": row("Select elements or slices by coordinates, the columns of the indices.", _gather_nd,
            _INDEXING),
        "one_hot": row("Return on_value at the place that each index names on a new last axis, else off_value.",
            _one_hot, _INDEXING, depth=INT, on_value=attribute("double", 1.0), off_value=attribute("double", 0.0),
            dtype=DTYPE),
        "where": row("Select a where the condition is not 0, else b; a condition of one axis selects rows.",
            _where, "tensor/control_flow_op.cc"),
    },
    check=any_dtypes,
)  # fmt: skip
