"""Reductions and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.arguments import axes_of, axis_of, integer, integers
from anylayer.layer.fields import attribute
from anylayer.layers._cumulative import cumulative_sum
from anylayer.layers._table import computes, operators
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer
from anylayer.network import Array


def _over(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function of the operation's inputs and attribute, from one with the arguments of np.max."""

    def reduce(x: Array, axes: Array, keep_dims: bool) -> Any:
        named = tuple(axes_of(integers(axes, "axes"), len(x.shape)))
        return function(x, axis=named, keepdims=keep_dims) if named else x

    return reduce


def _sum(x: Array, **how: Any) -> Any:
    return np.sum(x, dtype=x.dtype, **how)


def _prod(x: Array, **how: Any) -> Any:
    return np.prod(x, dtype=x.dtype, **how)


def _norm1(x: Array, **how: Any) -> Any:
    return _sum(np.abs(x), **how)


def _mean(x: Array, **how: Any) -> Any:
    need(x.dtype.kind == "f", f"the mean needs real numbers, got {x.dtype}")
    return np.mean(x, **how)


operators(
    OpenVINOLayer,
    f"The axes are a constant. They are removed, or have size 1 with keep_dims.\n    {SPECIFICATION}",
    {
        name: computes(what, _over(function), f"{name}-{opset}")
        for name, what, function, opset in (
            ("ReduceSum", "the sum over the given axes", _sum, 1),
            ("ReduceMean", "the mean over the given axes", _mean, 1),
            ("ReduceProd", "the product over the given axes", _prod, 1),
            ("ReduceMax", "the maximum over the given axes", np.max, 1),
            ("ReduceMin", "the minimum over the given axes", np.min, 1),
            ("ReduceL1", "the sum of absolute values over the given axes", _norm1, 4),
            (
                "ReduceL2",
                "the square root of the sum of squares over the given axes",
                lambda x, **how: np.sqrt(_sum(x * x, **how)),
                4,
            ),
            ("ReduceLogicalAnd", "whether all elements along the axes are true", np.all, 1),
            ("ReduceLogicalOr", "whether any element along the axes is true", np.any, 1),
        )
    },
    attributes={"keep_dims": attribute("bool", False, doc="whether reduced axes are kept with size 1")},
)


@layer("CumSum")
class CumSum(OpenVINOLayer):
    """Compute the cumulative sum along an axis.

    The output has the shape of x. The axis is a constant, 0 by default.
    Source: OpenVINO operation specification, CumSum-3.
    """

    exclusive: bool = attribute("bool", False, doc="whether element i is the sum of the elements before i")
    reverse: bool = attribute("bool", False, doc="whether the sum starts at the end")

    def forward(self, x: Array, axis: Any = 0) -> Array:
        along = axis_of(integer(axis, "axis"), len(x.shape))
        return cumulative_sum(x, along, self.exclusive, self.reverse)
