"""Operators that select by index or by condition."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axis_of, need_sizes
from anylayer.layers._arrays import one_hot, reverse_sequences
from anylayer.layers._table import row
from anylayer.layers.mxnet._base import DTYPE, FLAG, INT, INTS, any_dtypes, operators, training


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


def _lengths(x: Array, lengths: Array | None, use_sequence_length: bool, axis: int) -> Array:
    """Return the lengths of the sequences, (N,). The time is axis 0 or 1 of an array, and N the other one."""
    need(axis in (0, 1), f"axis must be 0 or 1, got {axis}")
    number = "without" if lengths is None else "with"
    need(
        use_sequence_length == (lengths is not None), f"use_sequence_length={use_sequence_length} {number} lengths"
    )
    return np.full(x.shape[1 - axis], x.shape[axis]) if lengths is None else lengths.astype(np.int64)


def _mask(x: Array, lengths: Array | None = None, *, use_sequence_length: bool, value: float, axis: int) -> Array:
    ends, time = _lengths(x, lengths, use_sequence_length, axis), np.arange(x.shape[axis])
    inside = time[:, None] < ends if axis == 0 else time < ends[:, None]
    return np.where(inside.reshape(*x.shape[:2], *(1,) * (len(x.shape) - 2)), x, x.dtype.type(value))


def _last(x: Array, lengths: Array | None = None, *, use_sequence_length: bool, axis: int) -> Array:
    ends = _lengths(x, lengths, use_sequence_length, axis)
    rows, (n, steps) = x if axis == 1 else x.swapaxes(0, 1), (x.shape[1 - axis], x.shape[axis])
    place = np.arange(n) * steps + np.clip(ends, 1, steps) - 1
    return ops.gather(rows.reshape(n * steps, *x.shape[2:]), place)


def _reverse(x: Array, lengths: Array | None = None, *, use_sequence_length: bool, axis: int) -> Array:
    ends = _lengths(x, lengths, use_sequence_length, axis)
    return reverse_sequences(x, ends, (1 - axis, "the batch"), (axis, "the time"))


def _scatter(updates: Array, indices: Array, shape: Sequence[int]) -> Array:
    need_sizes(shape)
    order = (*range(1, len(indices.shape)), 0)
    return ops.scatter_nd(
        np.zeros(tuple(shape), updates.dtype), indices.astype(np.int64).transpose(order), updates
    )


_MODE = attribute(Enum("clip", "wrap"), "clip")
_SEQUENCE = {"use_sequence_length": FLAG, "axis": attribute("int32", 0)}
_LENGTHS = "With use_sequence_length the second input has the lengths (N,). axis is that of the time, 0 or 1."
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
        "batch_take": row("Select one element of each row by index; indices out of range are clipped.",
            lambda x, index: _pick(x, index, 1, False, "clip"), _INDEXING),
        "scatter_nd": row("Return zeros with elements or slices at coordinates, the columns of the indices.",
            _scatter, _INDEXING, shape=INTS),
        "SequenceMask": row("Replace the steps after the end of each sequence by a value.", _mask,
            "sequence_mask.cc", _LENGTHS, value=attribute("float", 0.0), **_SEQUENCE),
        "SequenceLast": row("Return the last step of each sequence.", _last, "sequence_last.cc", _LENGTHS,
            **_SEQUENCE),
        "SequenceReverse": row("Reverse the order of the steps of each sequence.", _reverse, "sequence_reverse.cc",
            _LENGTHS, **_SEQUENCE),
        "one_hot": row("Return on_value at the place that each index names on a new last axis, else off_value.",
            _one_hot, _INDEXING, depth=INT, on_value=attribute("double", 1.0), off_value=attribute("double", 0.0),
            dtype=DTYPE),
        "where": row("Select a where the condition is not 0, else b; a condition of one axis selects rows.",
            _where, "tensor/control_flow_op.cc"),
    },
    check=any_dtypes,
)  # fmt: skip
