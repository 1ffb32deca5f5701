"""Slices, gathers, one-hot encoding, the largest values and related selections."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axis_in, integer, integers, need_within
from anylayer.layers._arrays import MASKS, gather, one_hot, reverse_sequences, strided_slice
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, results


def _slice(x: Array, begin: list[int], size: list[int]) -> Array:
    rank = len(x.shape)
    need(len(begin) == len(size) == rank, f"begin and size must be {rank} numbers, got {begin} and {size}")
    key = []
    for axis, (b, s, n) in enumerate(zip(begin, size, x.shape)):
        s = n - b if s == -1 else s
        need(b >= 0 and s >= 0 and b + s <= n, f"begin {b} and size {s} do not lie within axis {axis} of size {n}")
        key.append(slice(b, b + s))
    return x[tuple(key)]


def _strided_slice(x: Array, begin: Array, end: Array, strides: Array, **masks: int) -> Any:
    entries = {name: [i for i in range(mask.bit_length()) if mask >> i & 1] for name, mask in masks.items()}
    return strided_slice(x, begin, end, strides, **entries)


def _gather(x: Array, indices: Array, axis: int = 0, batch_dims: int = 0) -> Array:
    need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")
    need_within(indices, x.shape[axis])
    return gather(x, indices, axis, batch_dims)


def _resource_gather(x: Array, indices: Array, batch_dims: int) -> Array:
    need(batch_dims == 0, f"batch_dims must be 0, got {batch_dims}")
    return _gather(x, indices)


def _top_k(x: Array, k: int, index_type: str = "int32") -> tuple[Array, Array]:
    need(0 <= k <= x.shape[-1], f"k={k} exceeds the {x.shape[-1]} elements of the last axis")
    values, indices = ops.top_k(x, k, axis=-1)
    return values, indices.astype(index_type)


_LARGEST = {"results": results("values", "indices"), "sorted": attribute("bool", True)}
_UNCHECKED = {"harmless": frozenset({"validate_indices", "bad_indices_policy"})}

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "Slice": row("Slice an array: size[i] elements from begin[i] on along each axis i.", _slice, "slice_op.cc",
            "begin and size are constants with one number per axis. A size of -1 takes the rest of the axis.",
            begin=integers, size=integers),
        "StridedSlice": row("Compute x[begin:end:strides, ...] in NumPy's notation.", _strided_slice,
            "strided_slice_op.cc",
            "begin, end and strides are constants with one entry per dimension of the slice. Bit i of a mask "
            "applies to entry i: begin_mask and end_mask leave begin or end out; ellipsis_mask makes it an "
            "ellipsis, new_axis_mask a new axis of size 1, and shrink_axis_mask an index instead of a slice.",
            **dict.fromkeys(MASKS, attribute("int64", 0))),
        "Gather": row("Select rows by index: x[indices], of shape indices.shape + x.shape[1:].",
            lambda x, indices: _gather(x, indices), "gather_op.cc", body=_UNCHECKED),
        "GatherV2": row("Select slices along an axis, a constant, by index, like numpy.take.",
            lambda x, indices, axis, batch_dims: _gather(x, indices, axis_in(x, axis), batch_dims), "gather_op.cc",
            "The output has the shape x.shape[:axis] + indices.shape[batch_dims:] + x.shape[axis + 1:]. With "
            "batch_dims = b the first b axes of x and indices correspond, and each batch has its own indices.",
            _UNCHECKED, batch_dims=attribute("int64", 0)),
        "ResourceGather": row("Select rows of a variable by index: x[indices].", _resource_gather,
            "resource_variable_ops.cc", "The output has the shape indices.shape + x.shape[1:].",
            {"harmless": frozenset({"validate_indices", "dtype"})}, batch_dims=attribute("int64", 0)),
        "GatherNd": row("Select by index vectors: x[indices[..., 0], indices[..., 1], ...].",
            lambda x, indices: ops.gather_nd(x, indices.astype(np.int64)), "gather_nd_op.cc",
            "x and indices (..., k) give indices.shape[:-1] + x.shape[k:].", _UNCHECKED),
        "OneHot": row("Encode indices as one-hot vectors along a new axis.",
            lambda indices, depth, on_value, off_value, axis: one_hot(indices, depth, axis, on_value, off_value),
            "one_hot_op.cc",
            "The element is on_value where its position along the new axis equals the index, else off_value. "
            "depth, a constant, is the size of the new axis; `axis` is its place in the output, -1 for the last.",
            depth=integer, axis=attribute("int64", -1)),
        "TopK": row("Return the k largest elements along the last axis and their indices.",
            lambda x, k: _top_k(x, k), "topk_op.cc",
            "(..., n) to values and indices (..., k), in descending order; k is an attribute.", _LARGEST,
            k=attribute("int64")),
        "TopKV2": row("Return the k largest elements along the last axis and their indices.", _top_k, "topk_op.cc",
            "(..., n) to values and indices (..., k), in descending order; k is a constant input.", _LARGEST,
            k=integer, index_type=attribute(Enum("int32", "int64"), "int32")),
        "ReverseSequence": row("Reverse the first seq_lengths[i] elements of each sequence i.",
            lambda x, lengths, seq_dim, batch_dim: reverse_sequences(
                x, lengths, (batch_dim, "batch_dim"), (seq_dim, "seq_dim")),
            "reverse_sequence_op.cc",
            "seq_dim is the axis of the elements and batch_dim the axis of the sequences.",
            seq_dim=attribute("int64"), batch_dim=attribute("int64", 0)),
        "Where": row("Return the indices of the elements that are not zero: (count, rank) int64.",
            lambda x: np.argwhere(x).astype(np.int64), "where_op.cc", "The count depends on the data."),
    },
)  # fmt: skip
