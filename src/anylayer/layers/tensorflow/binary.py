"""Elementwise operations on two or more inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.layers._family import define
from anylayer.layers.tensorflow._base import TensorFlowLayer, attribute, layer, need
from anylayer.network import Array


def _truncating_quotient(a: Array, b: Array) -> Array:
    """Return a / b, rounded towards zero."""
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype)


def _quotient(a: Array, b: Array) -> Array:
    return a / b if a.dtype.kind == "f" else _truncating_quotient(a, b)


def _no_nan(a: Array, b: Array) -> Array:
    """Return a / b, or 0 where b is 0."""
    zero = b == 0
    return np.where(zero, np.zeros((), a.dtype), a / np.where(zero, np.ones((), b.dtype), b))


class Binary(TensorFlowLayer):
    """A function of two inputs of one dtype."""

    function: Callable[[Any, Any], Any]

    def forward(self, a: Array, b: Array) -> Any:
        need(a.dtype == b.dtype, f"both inputs must have the same dtype, got {a.dtype} and {b.dtype}")
        return type(self).function(a, b)


_FUNCTIONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "Add": ("a + b", np.add),
    "AddV2": ("a + b", np.add),
    "Sub": ("a - b", np.subtract),
    "Mul": ("a * b", np.multiply),
    "RealDiv": ("a / b", np.true_divide),
    "Div": ("a / b, rounded towards zero for integers", _quotient),
    "DivNoNan": ("a / b, or 0 where b is 0", _no_nan),
    "TruncateDiv": ("a / b, rounded towards zero", _truncating_quotient),
    "FloorDiv": ("a / b, rounded down", np.floor_divide),
    "FloorMod": ("the remainder of a / b, with the sign of b", np.mod),
    "Mod": ("the remainder of a / b, with the sign of a", np.fmod),
    "TruncateMod": ("the remainder of a / b, with the sign of a", np.fmod),
    "Maximum": ("the larger of a and b", np.maximum),
    "Minimum": ("the smaller of a and b", np.minimum),
    "Pow": ("a to the power of b", np.power),
    "SquaredDifference": ("(a - b) * (a - b)", lambda a, b: (a - b) * (a - b)),
    "Atan2": ("the angle of the point (b, a), in radians", np.arctan2),
    "Greater": ("whether a > b", np.greater),
    "GreaterEqual": ("whether a >= b", np.greater_equal),
    "Less": ("whether a < b", np.less),
    "LessEqual": ("whether a <= b", np.less_equal),
    "LogicalAnd": ("whether both a and b are true", np.logical_and),
    "LogicalOr": ("whether a or b is true", np.logical_or),
}
for _name, (_what, _function) in _FUNCTIONS.items():
    define(
        _name,
        Binary,
        f"Compute {_what}.",
        "a and b have one dtype, and their shapes broadcast as in NumPy.\n"
        f"    Source: tf.raw_ops.{_name}; tensorflow/core/kernels/cwise_ops.h.",
        function=staticmethod(_function),
    )


@layer("Equal")
class Equal(TensorFlowLayer):
    """Compute whether a == b.

    The shapes of a and b broadcast as in NumPy. Source: tf.raw_ops.Equal; tensorflow/core/kernels/cwise_ops.h.
    """

    harmless = frozenset({"incompatible_shape_error"})

    def forward(self, a: Array, b: Array) -> Any:
        return a == b


@layer("NotEqual")
class NotEqual(Equal):
    """Compute whether a != b.

    The shapes of a and b broadcast as in NumPy. Source: tf.raw_ops.NotEqual; tensorflow/core/kernels/cwise_ops.h.
    """

    def forward(self, a: Array, b: Array) -> Any:
        return a != b


@layer("AddN")
@layer("AccumulateNV2")
class AddN(TensorFlowLayer):
    """Compute the sum of all inputs, which have equal shapes.

    Source: tf.raw_ops.AddN, tf.raw_ops.AccumulateNV2; tensorflow/core/kernels/aggregate_ops.cc.
    """

    shape: Any = attribute("any", None)

    def forward(self, *xs: Array) -> Array:
        need(xs, "needs 1 input or more, got 0")
        total = xs[0]
        for x in xs[1:]:
            need(
                tuple(x.shape) == tuple(xs[0].shape),
                f"all inputs must have the shape {tuple(xs[0].shape)} of the first, got {tuple(x.shape)}",
            )
            total = total + x
        return total


@layer("ClipByValue")
class ClipByValue(TensorFlowLayer):
    """Clip x to the interval from low to high: min(max(x, low), high).

    low and high broadcast to the shape of x. Source: tf.raw_ops.ClipByValue;
    tensorflow/core/kernels/cwise_op_clip.cc.
    """

    def forward(self, x: Array, low: Array, high: Array) -> Array:
        return np.minimum(np.maximum(x, low), high)


@layer("SelectV2")
class SelectV2(TensorFlowLayer):
    """Select a where the condition is true, else b.

    The shapes of all three inputs broadcast as in NumPy. Source: tf.raw_ops.SelectV2;
    tensorflow/core/kernels/cwise_op_select.cc.
    """

    def forward(self, condition: Array, a: Array, b: Array) -> Array:
        return np.where(condition, a, b)


@layer("Select")
class Select(TensorFlowLayer):
    """Select a where the condition is true, else b; a condition of rank 1 selects whole rows.

    a and b have equal shapes. The condition has their shape, or is a vector with one value per index of axis 0.
    Source: tf.raw_ops.Select; tensorflow/core/kernels/cwise_op_select.cc.
    """

    def forward(self, condition: Array, a: Array, b: Array) -> Array:
        need(
            tuple(a.shape) == tuple(b.shape),
            f"both values must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}",
        )
        if len(condition.shape) == 1 and len(a.shape) > 1:
            condition = condition.reshape(-1, *(1,) * (len(a.shape) - 1))
        return np.where(condition, a, b)
