"""Operations on shapes and on the order of elements."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import given
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import (
    axes_in,
    axes_of,
    axis_in,
    axis_of,
    constant,
    holds_sizes,
    integers,
    need_sizes,
    reshape,
    shape_of,
)
from anylayer.layers import _arrays as arrays
from anylayer.layers._table import operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer, dtype_of


def _squeeze(x: Array, axes: list[int] | None = None, *, allow_axis_skip: bool) -> Array:
    places = sorted({axis_of(a, len(x.shape), "axes") for a in axes or ()})
    if not allow_axis_skip or not places:
        return arrays.squeeze(x, places)
    ones = [a for a in places if x.shape[a] == 1]
    return arrays.squeeze(x, ones) if ones else x


def _split(x: Array, axis: Array, num_splits: int, *, outputs: int) -> list[Array]:
    need(num_splits == outputs, f"num_splits={num_splits} does not fit {outputs} outputs")
    return arrays.split(x, axis_in(x, axis), num_splits, "num_splits")


def _shape_of(x: Array, output_type: str) -> Array:
    need(output_type in ("i32", "i64"), f"output_type must be i32 or i64, got '{output_type}'")
    return shape_of(x, dtype_of(output_type, "output_type"))


def _broadcast(x: Array, shape: Array, axes: Array | None = None, *, mode: str, broadcast_spec: str) -> Array:
    target = tuple(integers(shape, "the shape"))
    if "explicit" in (mode, broadcast_spec):
        axes = given(axes, "mode 'explicit' needs a third input, the axes")
        places = axes_of(integers(axes, "axes"), len(target))
        need(
            len(places) == len(x.shape),
            f"the axes must be {len(x.shape)} numbers, one per axis of the input, got {places}",
        )
        full = [1] * len(target)
        for place, n in zip(places, x.shape):
            full[place] = n
        x = x.reshape(tuple(full))
    if mode == "bidirectional":
        target = np.broadcast_shapes(tuple(x.shape), target)
    need_sizes(target)
    return np.broadcast_to(x, target)


def _tile(x: Array, repeats: list[int]) -> Array:
    need(min(repeats, default=0) >= 0, f"the repeats must not be negative, got {repeats}")
    rank = max(len(repeats), len(x.shape))
    shape, times = ([1] * (rank - len(v)) + list(v) for v in (x.shape, repeats))
    need_sizes([d * n for d, n in zip(shape, times)])
    return np.tile(x, tuple(times))


def _range(start: Array, stop: Array, step: Array, output_type: str) -> Array:
    if holds_sizes(stop) and (integers(start, "start"), integers(step, "step")) == ([0], [1]):
        return np.arange(integers(stop, "stop")[0]).astype(dtype_of(output_type or "i64", "output_type"))
    named = {"start": start, "stop": stop, "step": step}
    first, last, by = (constant(v, name).reshape(-1)[0] for name, v in named.items())
    dtype = dtype_of(output_type, "output_type") if output_type else first.dtype
    return (first + np.arange(arrays.count_in_range(first, last, by, "step")) * by).astype(dtype)


def _reverse(x: Array, axes: Array, mode: str) -> Any:
    if mode == "mask":
        return np.flip(x, tuple(i for i, marked in enumerate(constant(axes, "axes").reshape(-1)) if marked))
    return np.flip(x, tuple(axes_in(x, axes)))


def _roll(x: Array, shift: list[int], axes: list[int]) -> Array:
    shifts = shift * len(axes) if len(shift) == 1 else shift
    return np.roll(x, tuple(shifts), tuple(axis_of(a, len(x.shape), "axes") for a in axes))


operators(
    OpenVINOLayer,
    SPECIFICATION,
    {
        "Reshape": row("Reshape an array in C order.",
            lambda x, shape, special_zero: reshape(x, shape, "shape", x.shape if special_zero else None),
            "Reshape-1",
            "The shape is a constant. A size of -1 stands for the rest; with special_zero, 0 copies the size of "
            "the same input axis.",
            shape=integers,
            special_zero=attribute("bool", doc="whether 0 copies the size of the same input axis")),
        "Squeeze": row("Remove axes of size 1: those given, a constant, or all of them.", _squeeze,
            "Squeeze-1 and Squeeze-15", axes=integers,
            allow_axis_skip=attribute(
                "bool", False, doc="whether axes of other sizes are kept instead of refused")),
        "Unsqueeze": row("Insert axes of size 1. The axes, a constant, are indices of the output.",
            lambda x, axes: arrays.unsqueeze(x, axes, "axes"), "Unsqueeze-1", axes=integers),
        "Transpose": row("Permute the axes: output axis i is input axis order[i].",
            lambda x, order: arrays.transpose(x, order or range(len(x.shape))[::-1], "the order"), "Transpose-1",
            "The order is a constant. An empty order reverses the axes.",
            order=lambda x, _: integers(x, "the order")),
        "Concat": row("Concatenate the inputs along `axis`.",
            lambda *inputs, axis: arrays.concatenate(inputs, axis), "Concat-1",
            "The inputs have equal shapes except along `axis`.", axis=attribute("int64")),
        "Split": row("Split an array into num_splits equal parts along an axis, a constant.", _split, "Split-1",
            num_splits=attribute("int64")),
        "VariadicSplit": row("Split an array into parts of given lengths along an axis.",
            lambda x, axis, split_lengths: arrays.split_by_sizes(
                x, axis_in(x, axis), split_lengths, "split_lengths"), "VariadicSplit-1",
            "Axis and lengths are constants. One length may be -1: the rest.",
            split_lengths=integers),
        "ShapeOf": row("Return the shape of the input as integers (rank,).", _shape_of,
            "ShapeOf-1 and ShapeOf-3", "It is a constant, unless a size is dynamic.",
            output_type=attribute("string", "i64")),
        "Broadcast": row("Broadcast an array to a shape, a constant.", _broadcast, "Broadcast-1 and Broadcast-3",
            "Mode numpy broadcasts x to it, bidirectional broadcasts both to each other, and explicit maps axis i "
            "of x to axis axes[i] of the shape, where the third input gives the axes.",
            mode=attribute(Enum("numpy", "explicit", "bidirectional"), "numpy"),
            broadcast_spec=attribute(Enum("numpy", "explicit"), "numpy")),
        "Tile": row("Repeat an array along each axis as often as the second input, a constant, states.", _tile,
            "Tile-1", "The shorter of shape and repeats is extended by ones in front.",
            repeats=lambda x, _: integers(x, "the repeats")),
        "Range": row("Return the numbers start, start + step, ... before stop.", _range, "Range-1, Range-4",
            "All inputs are constant scalars.",
            output_type=attribute("string", "")),
        "Reverse": row("Reverse the order of the elements along some axes.", _reverse, "Reverse-1",
            "The axes are a constant: indices with mode index, or one boolean per axis with mode mask.",
            mode=attribute(Enum("index", "mask"))),
        "Roll": row("Shift the elements along some axes cyclically. Shifts and axes are constants.", _roll,
            "Roll-7", shift=integers, axes=integers),
    },
)  # fmt: skip
