"""Reductions, indices of extrema and cumulative sums."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axis_in
from anylayer.layers._arrays import cumulative_sum, euclidean_norm, product, reduction, total
from anylayer.layers._table import computes, operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer


def _mean(x: Array, axis: tuple[int, ...], keepdims: bool) -> Any:
    """Return the mean over axes. The mean of integers is the sum divided by the count, rounded down."""
    if x.dtype.kind == "f":
        return np.mean(x, axis=axis, keepdims=keepdims)
    count = int(np.prod([x.shape[a] for a in axis]))
    return np.sum(x, axis=axis, keepdims=keepdims) // max(count, 1)


operators(
    TensorFlowLayer,
    "The axes are a constant. An empty list of axes returns x unchanged. The output lacks these axes; with\n"
    f"    keep_dims, it has them with size 1.\n    {SOURCE}reduction_ops_common.h.",
    {
        name: computes(what, reduction(function, "reduction_indices"))
        for name, what, function in (
            ("Mean", "the mean over the given axes", _mean),
            ("Sum", "the sum over the given axes", total),
            ("Prod", "the product over the given axes", product),
            ("Max", "the maximum over the given axes", np.max),
            ("Min", "the minimum over the given axes", np.min),
            ("All", "whether all elements along the given axes are true", np.all),
            ("Any", "whether any element along the given axes is true", np.any),
            ("EuclideanNorm", "the square root of the sum of squares over the given axes", euclidean_norm),
        )
    },
    attributes={"keep_dims": attribute("bool", False)},
)


def _index_of(function: Any, x: Array, dimension: Array, output_type: str) -> Array:
    """Return the index of the extremum along an axis that `function` finds, np.argmax or np.argmin."""
    over = axis_in(x, dimension, "dimension")
    need(x.shape[over], f"axis {over} of shape {tuple(x.shape)} has size 0; 1 or more is needed")
    return function(x, axis=over).astype(output_type)


_INDEX = Enum("int32", "int64", "int16", "uint16")

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "ArgMax": row("Return the index of the maximum along an axis, the first of equal values.",
            lambda x, dimension, output_type: _index_of(np.argmax, x, dimension, output_type), "argmax_op.cc",
            "The axis is a constant. The output lacks it.", output_type=attribute(_INDEX, "int64")),
        "ArgMin": row("Return the index of the minimum along an axis, the first of equal values.",
            lambda x, dimension, output_type: _index_of(np.argmin, x, dimension, output_type), "argmax_op.cc",
            "The axis is a constant. The output lacks it.", output_type=attribute(_INDEX, "int64")),
        "Cumsum": row("Compute the cumulative sum along an axis.",
            lambda x, axis, **how: cumulative_sum(x, axis_in(x, axis), **how), "scan_ops.cc",
            "The axis is a constant. With exclusive, element i is the sum of the elements before i. With reverse, "
            "the sum starts at the end of the axis.",
            exclusive=attribute("bool", False), reverse=attribute("bool", False)),
        "L2Loss": row("Compute half the sum of the squares of all elements, a scalar.",
            lambda x: (np.sum(x * x) / 2).astype(x.dtype), "l2loss_op.cc"),
    },
)  # fmt: skip
