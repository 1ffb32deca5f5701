"""Shapes as values, reshapes, and values made from shapes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axes_of, constant, integer, integers, reshape, shape_of
from anylayer.layers._arrays import MAX_RANGE, count_in_range, squeeze, unsqueeze
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, results_counted_by


def _sizes(value: Array, what: str) -> list[int]:
    """Return the sizes of a constant input, all of which are 0 or more."""
    sizes = integers(value, what)
    need(all(d >= 0 for d in sizes), f"{what} must be sizes of 0 or more, got {sizes}")
    return sizes


def _flatten(x: Array) -> Array:
    need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")
    return x.reshape(x.shape[0], math.prod(x.shape[1:]))


def _range(start: Array, limit: Array, delta: Array) -> Any:
    count = count_in_range(start, limit, delta, "delta")
    return start + np.arange(count, dtype=start.dtype) * delta


def _lin_space(start: Array, stop: Array, num: int) -> Array:
    need(0 < num < MAX_RANGE, f"num must lie in 1..{MAX_RANGE - 1}, got {num}")
    return np.linspace(start, stop, num, dtype=start.dtype)


def _invert_permutation(x: Array) -> Any:
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
