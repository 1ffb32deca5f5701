"""Reductions, indices of extrema and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.layers._cumulative import cumulative_sum
from anylayer.layers._table import computes, operators
from anylayer.layers.tensorflow._base import (
    SOURCE,
    Enum,
    TensorFlowLayer,
    attribute,
    axes_of,
    axis_of,
    integer,
    integers,
    layer,
    need,
)
from anylayer.network import Array


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the operation's inputs and attribute, from one with the arguments of np.max."""

    def reduce(x: Array, axes: Array, keep_dims: bool) -> Any:
        named = integers(axes, "reduction_indices", 2)
        axis = tuple(sorted(axes_of(named, len(x.shape), "reduction_indices")))
        return function(x, axis=axis, keepdims=keep_dims).astype(x.dtype) if axis else x

    return reduce


def _mean(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Return the mean over axes. The mean of integers is the sum divided by the count, rounded down."""
    if x.dtype.kind == "f":
        return np.mean(x, axis=axis, keepdims=keepdims)
    count = int(np.prod([x.shape[a] for a in axis]))
    return np.sum(x, axis=axis, keepdims=keepdims) // max(count, 1)


operators(
    TensorFlowLayer,
    "The axes are a constant; without axes the output is x. The reduced axes are removed, or have size 1\n"
    f"    with keep_dims. {SOURCE}reduction_ops_common.h.",
    {
        name: computes(what, _over(function))
        for name, what, function in (
            ("Mean", "the mean over the given axes", _mean),
            ("Sum", "the sum over the given axes", np.sum),
            ("Prod", "the product over the given axes", np.prod),
            ("Max", "the maximum over the given axes", np.max),
            ("Min", "the minimum over the given axes", np.min),
            ("All", "whether all elements along the given axes are true", np.all),
            ("Any", "whether any element along the given axes is true", np.any),
            (
                "EuclideanNorm",
                "the square root of the sum of squares over the given axes",
                lambda x, **how: np.sqrt(np.sum(x * x, **how)),
            ),
        )
    },
    attributes={"keep_dims": attribute("bool", False)},
)


class _Best(TensorFlowLayer):
    """The index of an extremum along an axis, which is a constant input."""

    output_type: str = attribute(Enum("int32", "int64", "int16", "uint16"), "int64")
    smallest = False

    def forward(self, x: Array, axis: Array) -> Any:
        over = axis_of(integer(axis, "dimension"), len(x.shape), "dimension")
        need(x.shape[over], f"axis {over} of shape {tuple(x.shape)} has size 0; 1 or more is needed")
        index = np.argmin(x, axis=over) if self.smallest else np.argmax(x, axis=over)
        return index.astype(self.output_type)


@layer("ArgMax")
class ArgMax(_Best):
    """Return the index of the maximum along an axis, the first of equal values.

    The axis is a constant, and the output has no such axis. output_type is the dtype of the output.
    Source: tf.raw_ops.ArgMax; tensorflow/core/kernels/argmax_op.cc.
    """


@layer("ArgMin")
class ArgMin(_Best):
    """Return the index of the minimum along an axis, the first of equal values.

    The axis is a constant, and the output has no such axis. output_type is the dtype of the output.
    Source: tf.raw_ops.ArgMin; tensorflow/core/kernels/argmax_op.cc.
    """

    smallest = True


@layer("Cumsum")
class Cumsum(TensorFlowLayer):
    """Compute the cumulative sum along an axis.

    The output has the shape of x; the axis is a constant. With exclusive, element i is the sum of the elements
    before i. With reverse, the sum starts at the end of the axis.
    Source: tf.raw_ops.Cumsum; tensorflow/core/kernels/scan_ops.cc.
    """

    exclusive: bool = attribute("bool", False)
    reverse: bool = attribute("bool", False)

    def forward(self, x: Array, axis: Array) -> Array:
        over = axis_of(integer(axis, "axis"), len(x.shape))
        return cumulative_sum(x, over, self.exclusive, self.reverse)


@layer("L2Loss")
class L2Loss(TensorFlowLayer):
    """Compute half the sum of the squares of all elements, a scalar.

    Source: tf.raw_ops.L2Loss; tensorflow/core/kernels/l2loss_op.cc.
    """

    def forward(self, x: Array) -> Any:
        return (np.sum(x * x) / 2).astype(x.dtype)
