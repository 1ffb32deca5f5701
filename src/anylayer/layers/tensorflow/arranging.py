"""Operations that rearrange elements: concat, split, transpose, repeat, reverse and pad."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import plural
from anylayer.layer import Array, attribute, need
from anylayer.layer.arguments import axes_in, axis_in, axis_of, integer, integers, number
from anylayer.layers._arrays import concatenate, split, split_by_sizes, transpose
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, pairs_of, results_counted_by


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
