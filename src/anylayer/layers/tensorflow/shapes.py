"""Shapes as values, and operations that reshape, rearrange, repeat and pad arrays."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.errors import plural
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import (
    axes_in,
    axes_of,
    axis_in,
    axis_of,
    constant,
    integer,
    integers,
    number,
    reshape,
    shape_of,
)
from anylayer.layers._arrays import (
    MAX_RANGE,
    concatenate,
    count_in_range,
    split,
    split_by_sizes,
    squeeze,
    transpose,
    unsqueeze,
)
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, pairs_of, results_counted_by


def _sizes(value: Array, what: str) -> list[int]:
    """Return the sizes of a constant input, all of which are 0 or more."""
    sizes = integers(value, what)
    need(all(d >= 0 for d in sizes), f"{what} must be sizes of 0 or more, got {sizes}")
    return sizes


def _flatten(x: Array) -> Array:
    need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def _range(start: Array, limit: Array, delta: Array) -> Array:
    count = count_in_range(start, limit, delta, "delta")
    return start + np.arange(count, dtype=start.dtype) * delta


def _lin_space(start: Array, stop: Array, num: int) -> Array:
    need(0 < num < MAX_RANGE, f"num must lie in 1..{MAX_RANGE - 1}, got {num}")
    return np.linspace(start, stop, num, dtype=start.dtype)


def _invert_permutation(x: Array) -> Array:
    order = integers(x, "x")
    need(sorted(order) == list(range(len(order))), f"x must be a permutation, got {order[:20]}")
    return np.argsort(x).astype(x.dtype)


_OUT_TYPE = attribute(Enum("int32", "int64"), "int32")

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "Shape": row("Return the shape of the input as integers (rank,) of dtype out_type.",
            lambda x, out_type: shape_of(x, out_type), "shape_ops.cc", out_type=_OUT_TYPE),
        "ShapeN": row("Return the shape of each of the N inputs.",
            lambda *xs, out_type: [shape_of(x, out_type) for x in xs], "shape_ops.cc",
            body={"N": attribute("int64"), "results": results_counted_by("N")}, out_type=_OUT_TYPE),
        "Size": row("Return the number of elements of the input, a scalar.",
            lambda x, out_type: np.array(math.prod(x.shape), out_type), "shape_ops.cc", out_type=_OUT_TYPE),
        "Rank": row("Return the number of axes of the input, a scalar.",
            lambda x: np.array(len(x.shape), np.int32), "shape_ops.cc"),
        "Reshape": row("Reshape an array, in C order.", lambda x, shape: reshape(x, shape, "shape"),
            "reshape_op.cc", "The shape is a constant. One of its sizes may be -1, which stands for the rest.",
            shape=integers),
        "Squeeze": row("Remove axes of size 1: those of squeeze_dims, or all when it is empty.",
            lambda x, squeeze_dims: squeeze(x, axes_of(squeeze_dims, len(x.shape), "squeeze_dims")),
            "shape_ops.cc", squeeze_dims=attribute("int64", (), repeated=True)),
        "ExpandDims": row("Insert an axis of size 1.", lambda x, dim: unsqueeze(x, [dim], "dim"), "shape_ops.cc",
            "`dim`, a constant, is the index of the new axis in the output.", dim=integer),
        "Fill": row("Return an array of a given shape, a constant, that is filled with one value.",
            lambda dims, value: np.broadcast_to(value, dims), "constant_op.cc",
            body={"harmless": frozenset({"index_type"})}, dims=_sizes),
        "BroadcastTo": row("Broadcast an array to a given shape, a constant, like numpy.broadcast_to.",
            lambda x, shape: np.broadcast_to(x, shape), "broadcast_to_op.cc", shape=_sizes),
        "BroadcastArgs": row("Return the shape that two shapes, both constants, broadcast to.",
            lambda s0, s1: np.array(np.broadcast_shapes(tuple(integers(s0, "s0")), s1), s0.dtype), "bcast_ops.cc",
            s1=lambda x, what: tuple(integers(x, what))),
        "Range": row("Return the numbers start, start + delta, start + 2 * delta, ... before limit.", _range,
            "sequence_ops.cc", "All inputs are constant scalars.", start=constant, limit=constant, delta=constant),
        "LinSpace": row("Return `num` numbers at equal distances from start to stop, both included.", _lin_space,
            "sequence_ops.cc", "All inputs are constant scalars.", start=constant, stop=constant, num=integer),
        "InvertPermutation": row("Return the inverse of a permutation, a constant: y[x[i]] = i.",
            _invert_permutation, "transpose_op.cc", x=constant),
    },
)  # fmt: skip
operators(
    TensorFlowLayer,
    "TensorFlow has no such operation; OpenCV's tools write it into text graphs.\n"
    "    Source: OpenCV modules/dnn/src/tensorflow/tf_importer.cpp, parseFlatten.",
    {"Flatten": row("Flatten all axes after the first into one: (N, ...) to (N, C).", _flatten)},
)


def _concat_v2(*inputs: Array) -> Array:
    need(len(inputs) >= 2, f"needs 1 array or more and an axis, got {plural(len(inputs), 'input')}")
    *xs, axis = inputs
    return concatenate(xs, integer(axis, "axis"))


def _pack(*xs: Array, axis: int) -> Array:
    need(xs, "needs 1 input or more, got 0")
    return np.stack(xs, axis=axis_of(axis, len(xs[0].shape) + 1))


def _unpack(x: Array, axis: int, num: int) -> list[Array]:
    place = axis_of(axis, len(x.shape))
    need(x.shape[place] == num, f"num={num} is not the size of axis {place} of shape {tuple(x.shape)}")
    return [np.take(x, i, axis=place) for i in range(num)]


def _split_v(x: Array, size_splits: list[int], axis: Array, num_split: int) -> list[Array]:
    need(len(size_splits) == num_split, f"size_splits must be {num_split} sizes, got {size_splits}")
    return split_by_sizes(x, axis_in(x, axis, "split_dim"), size_splits, "size_splits")


def _tile(x: Array, multiples: list[int]) -> Array:
    need(
        len(multiples) == len(x.shape) and all(t >= 0 for t in multiples),
        f"multiples must be {len(x.shape)} numbers, one per axis, got {multiples}",
    )
    return np.tile(x, multiples)


def _pad(x: Array, paddings: Array, constant_values: Any) -> Array:
    return np.pad(x, pairs_of(paddings, len(x.shape), "paddings"), constant_values=constant_values)


def mirror_pad(x: Array, paddings: Array, mode: str) -> Array:
    """Return `x`, padded with mirrored elements: REFLECT does not repeat the edge element, SYMMETRIC does."""
    need(mode in ("REFLECT", "SYMMETRIC"), f"mode must be REFLECT or SYMMETRIC, got '{mode}'")
    pairs = pairs_of(paddings, len(x.shape), "paddings")
    for axis, (n, pair) in enumerate(zip(x.shape, pairs)):
        limit = n - (mode == "REFLECT")
        need(
            max(pair) <= limit, f"paddings {pair} of axis {axis} exceed the {limit} elements that can be mirrored"
        )
    return np.pad(x, pairs, mode="reflect" if mode == "REFLECT" else "symmetric")


_PADDINGS = "`paddings` is a constant of shape (rank, 2): the numbers of elements before and after each axis."

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "Concat": row(
            "Concatenate arrays along an axis, which is the first input, a constant.",
            lambda concat_dim, *xs: concatenate(xs, concat_dim, "concat_dim"), "concat_op.cc",
            "Graphs of the first releases of TensorFlow contain it; ConcatV2 replaced it.", concat_dim=integer),
        "ConcatV2": row("Concatenate arrays along an axis, which is the last input, a constant.", _concat_v2,
            "concat_op.cc", "The arrays have equal shapes except along the axis."),
        "Pack": row("Stack arrays of equal shape along a new axis.", _pack, "pack_op.cc",
            "`axis` is the index of the new axis in the output.", axis=attribute("int64", 0)),
        "Unpack": row("Split an array into its `num` slices along an axis, and remove the axis.", _unpack,
            "unpack_op.cc", "Axis `axis` of x must have size `num`.", {"results": results_counted_by("num")},
            axis=attribute("int64", 0), num=attribute("int64")),
        "Split": row("Split an array into `num_split` equal parts along an axis.",
            lambda axis, x, num_split: split(x, axis_in(x, axis, "split_dim"), num_split, "num_split"),
            "split_op.cc", "Inputs: the axis, a constant; then the array.",
            {"results": results_counted_by("num_split")}, num_split=attribute("int64")),
        "SplitV": row("Split an array into parts of given sizes along an axis.", _split_v, "split_v_op.cc",
            "Sizes and axis are constants. One size may be -1, which stands for the rest of the axis.",
            {"results": results_counted_by("num_split")}, num_split=attribute("int64"), size_splits=integers),
        "Transpose": row("Permute the axes of an array: output axis i is input axis perm[i].",
            lambda x, perm: transpose(x, perm, "perm"), "transpose_op.cc",
            "`perm` is a constant that names each axis of x once.", perm=integers),
        "Tile": row("Repeat an array multiples[i] times along each axis i; `multiples` is a constant.", _tile,
            "tile_ops.cc", multiples=integers),
        "ReverseV2": row("Reverse the order of the elements along the axes of a constant list.",
            lambda x, axis: np.flip(x, tuple(axes_in(x, axis, "axis"))), "reverse_op.cc"),
        "Pad": row("Pad an array with zeros.", lambda x, paddings: _pad(x, paddings, 0), "pad_op.cc", _PADDINGS),
        "PadV2": row("Pad an array with a given value, a constant scalar.", _pad, "pad_op.cc", _PADDINGS,
            constant_values=number),
        "MirrorPad": row("Pad an array with its own elements, mirrored at the edges.", mirror_pad,
            "image/mirror_pad_op.cc",
            f"mode REFLECT does not repeat the edge element, SYMMETRIC does. {_PADDINGS}",
            mode=attribute("string")),
    },
)  # fmt: skip
