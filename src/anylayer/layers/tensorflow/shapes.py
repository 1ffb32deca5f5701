"""Shapes as values, reshapes, and values made from shapes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.layer.arguments import reshape, shape_of
from anylayer.layers.tensorflow._base import (
    Enum,
    TensorFlowLayer,
    attribute,
    axes_of,
    axis_of,
    constant,
    count_of,
    integer,
    integers,
    layer,
    need,
)
from anylayer.network import Array

_MAX_RANGE = 1 << 26
"""Limit on the number of values that Range and LinSpace make."""


class _SizeLayer(TensorFlowLayer):
    out_type: str = attribute(Enum("int32", "int64"), "int32")


@layer("Shape")
class Shape(_SizeLayer):
    """Return the shape of the input as integers (rank,).

    The output depends on the shape of the input only. out_type is its dtype.
    Source: tf.raw_ops.Shape; tensorflow/core/kernels/shape_ops.cc.
    """

    def forward(self, x: Array) -> Array:
        return shape_of(x, self.out_type)


@layer("ShapeN")
class ShapeN(_SizeLayer):
    """Return the shape of each of the N inputs.

    Source: tf.raw_ops.ShapeN; tensorflow/core/kernels/shape_ops.cc.
    """

    N: int = attribute("int64")

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        return (("output", count_of(attr, "N")),)

    def forward(self, *xs: Array) -> Any:
        return [shape_of(x, self.out_type) for x in xs]


@layer("Size")
class Size(_SizeLayer):
    """Return the number of elements of the input, a scalar.

    Source: tf.raw_ops.Size; tensorflow/core/kernels/shape_ops.cc.
    """

    def forward(self, x: Array) -> Any:
        return np.array(math.prod(x.shape), self.out_type)


@layer("Rank")
class Rank(TensorFlowLayer):
    """Return the number of axes of the input, a scalar.

    Source: tf.raw_ops.Rank; tensorflow/core/kernels/shape_ops.cc.
    """

    def forward(self, x: Array) -> Any:
        return np.array(len(x.shape), np.int32)


@layer("Reshape")
class Reshape(TensorFlowLayer):
    """Reshape an array, in C order.

    The shape is a constant. One of its sizes may be -1, which stands for the rest.
    Source: tf.raw_ops.Reshape; tensorflow/core/kernels/reshape_op.cc.
    """

    def forward(self, x: Array, shape: Array) -> Array:
        return reshape(x, integers(shape, "shape"), "shape")


@layer("Flatten")
class Flatten(TensorFlowLayer):
    """Flatten all axes after the first into one: (N, ...) to (N, C).

    TensorFlow has no such operation; OpenCV's tools write it into text graphs.
    Source: OpenCV modules/dnn/src/tensorflow/tf_importer.cpp, parseFlatten.
    """

    def forward(self, x: Array) -> Any:
        need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")
        return x.reshape(x.shape[0], math.prod(x.shape[1:]))


@layer("Squeeze")
class Squeeze(TensorFlowLayer):
    """Remove axes of size 1: those of squeeze_dims, or all when it is empty.

    Source: tf.raw_ops.Squeeze; tensorflow/core/kernels/shape_ops.cc.
    """

    squeeze_dims: tuple[int, ...] = attribute("int64", (), repeated=True)

    def forward(self, x: Array) -> Array:
        rank = len(x.shape)
        gone = axes_of(self.squeeze_dims, rank, "squeeze_dims") or [i for i, d in enumerate(x.shape) if d == 1]
        for axis in gone:
            need(
                x.shape[axis] == 1, f"axis {axis} of shape {tuple(x.shape)} must have size 1, got {x.shape[axis]}"
            )
        return x.reshape([d for i, d in enumerate(x.shape) if i not in gone])


@layer("ExpandDims")
class ExpandDims(TensorFlowLayer):
    """Insert an axis of size 1.

    `dim`, a constant, is the index of the new axis in the output.
    Source: tf.raw_ops.ExpandDims; tensorflow/core/kernels/shape_ops.cc.
    """

    def forward(self, x: Array, dim: Array) -> Array:
        axis = axis_of(integer(dim, "dim"), len(x.shape) + 1, "dim")
        return x.reshape((*x.shape[:axis], 1, *x.shape[axis:]))


@layer("Fill")
class Fill(TensorFlowLayer):
    """Return an array of a given shape that is filled with one value.

    The shape is a constant, the value a scalar.
    Source: tf.raw_ops.Fill; tensorflow/core/kernels/constant_op.cc.
    """

    harmless = frozenset({"index_type"})

    def forward(self, dims: Array, value: Array) -> Array:
        return np.broadcast_to(value, _sizes(dims, "dims"))


@layer("BroadcastTo")
class BroadcastTo(TensorFlowLayer):
    """Broadcast an array to a given shape, like numpy.broadcast_to.

    The shape is a constant.
    Source: tf.raw_ops.BroadcastTo; tensorflow/core/kernels/broadcast_to_op.cc.
    """

    def forward(self, x: Array, shape: Array) -> Array:
        return np.broadcast_to(x, _sizes(shape, "shape"))


def _sizes(value: Array, what: str) -> list[int]:
    """Return the sizes of a constant input, all of which are 0 or more."""
    sizes = integers(value, what)
    need(all(d >= 0 for d in sizes), f"{what} must be sizes of 0 or more, got {sizes}")
    return sizes


@layer("BroadcastArgs")
class BroadcastArgs(TensorFlowLayer):
    """Return the shape that two shapes broadcast to.

    Both inputs are constants.
    Source: tf.raw_ops.BroadcastArgs; tensorflow/core/kernels/bcast_ops.cc.
    """

    def forward(self, a: Array, b: Array) -> Any:
        return np.array(np.broadcast_shapes(tuple(integers(a, "s0")), tuple(integers(b, "s1"))), a.dtype)


@layer("Range")
class Range(TensorFlowLayer):
    """Return the numbers start, start + delta, start + 2 * delta, ... before limit.

    All inputs are constant scalars.
    Source: tf.raw_ops.Range; tensorflow/core/kernels/sequence_ops.cc.
    """

    def forward(self, start: Array, limit: Array, delta: Array) -> Any:
        first, last, step = (constant(v, n) for v, n in ((start, "start"), (limit, "limit"), (delta, "delta")))
        need(step != 0, "delta must not be 0")
        count = (
            math.ceil((float(last) - float(first)) / float(step))
            if np.isfinite([first, last, step]).all()
            else _MAX_RANGE
        )
        need(
            count < _MAX_RANGE,
            f"from {first} to {last} by {step} gives {count} values, at most {_MAX_RANGE - 1} are supported",
        )
        return first + np.arange(max(count, 0), dtype=first.dtype) * step


@layer("LinSpace")
class LinSpace(TensorFlowLayer):
    """Return `num` numbers at equal distances from start to stop, both included.

    All inputs are constant scalars.
    Source: tf.raw_ops.LinSpace; tensorflow/core/kernels/sequence_ops.cc.
    """

    def forward(self, start: Array, stop: Array, num: Array) -> Array:
        first, last, count = constant(start, "start"), constant(stop, "stop"), integer(num, "num")
        need(0 < count < _MAX_RANGE, f"num must lie in 1..{_MAX_RANGE - 1}, got {count}")
        return np.linspace(first, last, count, dtype=first.dtype)


@layer("InvertPermutation")
class InvertPermutation(TensorFlowLayer):
    """Return the inverse of a permutation: y[x[i]] = i.

    The input is a constant.
    Source: tf.raw_ops.InvertPermutation; tensorflow/core/kernels/transpose_op.cc.
    """

    def forward(self, x: Array) -> Any:
        order = integers(x, "x")
        need(sorted(order) == list(range(len(order))), f"x must be a permutation, got {order[:20]}")
        return np.argsort(constant(x, "x")).astype(x.dtype)
