"""Reductions and cumulative sums."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.layer import layer, need
from anylayer.layer.arguments import axes_of, axis_of, integer, integers
from anylayer.layer.fields import attribute
from anylayer.layers._cumulative import cumulative_sum
from anylayer.layers.openvino._base import OpenVINOLayer, family
from anylayer.network import Array


class ReductionOperation(OpenVINOLayer):
    """A reduction over axes, which are a constant input."""

    keep_dims: bool = attribute("bool", False, doc="whether reduced axes are kept with size 1")

    def forward(self, x: Array, axes: Array) -> Array:
        named = tuple(axes_of(integers(axes, "axes"), len(x.shape)))
        return self.compute(x, named, self.keep_dims) if named else x

    @staticmethod
    def compute(x: Any, axes: tuple[int, ...], keep: bool) -> Any:
        """Return `x`, reduced over `axes`."""
        raise NotImplementedError


def _by(function: Callable[..., Any]) -> Callable[[Any, tuple[int, ...], bool], Any]:
    return lambda x, axes, keep: function(x, axis=axes, keepdims=keep)


def _sum(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.sum(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _mean(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    need(x.dtype.kind == "f", f"the mean needs real numbers, got {x.dtype}")
    return np.mean(x, axis=axes, keepdims=keep)


def _prod(x: Array, axes: tuple[int, ...], keep: bool) -> Any:
    return np.prod(x, axis=axes, keepdims=keep, dtype=x.dtype)


def _norm1(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return _sum(np.abs(x), axes, keep)


def _norm2(x: Array, axes: tuple[int, ...], keep: bool) -> Array:
    return np.sqrt(_sum(x * x, axes, keep))


family(
    {
        "ReduceSum": (_sum, "the sum over the given axes", "ReduceSum-1"),
        "ReduceMean": (_mean, "the mean over the given axes", "ReduceMean-1"),
        "ReduceProd": (_prod, "the product over the given axes", "ReduceProd-1"),
        "ReduceMax": (_by(np.max), "the maximum over the given axes", "ReduceMax-1"),
        "ReduceMin": (_by(np.min), "the minimum over the given axes", "ReduceMin-1"),
        "ReduceL1": (_norm1, "the sum of absolute values over the given axes", "ReduceL1-4"),
        "ReduceL2": (_norm2, "the square root of the sum of squares over the given axes", "ReduceL2-4"),
        "ReduceLogicalAnd": (_by(np.all), "whether all elements along the axes are true", "ReduceLogicalAnd-1"),
        "ReduceLogicalOr": (_by(np.any), "whether any element along the axes is true", "ReduceLogicalOr-1"),
    },
    ReductionOperation,
    "The axes are a constant. They are removed, or have size 1 with keep_dims.",
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
