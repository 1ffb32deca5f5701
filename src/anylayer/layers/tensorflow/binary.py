"""Functions of two values (or more), broadcast."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.layers.tensorflow._base import Operation, attribute, layer, need


def _truncated(a: Any, b: Any) -> Any:
    """The quotient cut towards zero."""
    if a.dtype.kind == "f":
        return np.trunc(a / b)
    quotient = np.abs(a) // np.abs(b)
    return np.where((a < 0) != (b < 0), -quotient, quotient).astype(a.dtype)


def _divided(a: Any, b: Any) -> Any:
    return a / b if a.dtype.kind == "f" else _truncated(a, b)


def _no_nan(a: Any, b: Any) -> Any:
    """a / b, 0 where b is 0."""
    zero = b == 0
    return np.where(zero, np.zeros((), a.dtype), a / np.where(zero, np.ones((), b.dtype), b))


_FUNCTIONS: dict[str, tuple[str, Callable[[Any, Any], Any]]] = {
    "Add": ("a + b.", np.add),
    "AddV2": ("a + b.", np.add),
    "Sub": ("a - b.", np.subtract),
    "Mul": ("a * b.", np.multiply),
    "RealDiv": ("a / b.", np.true_divide),
    "Div": ("a / b; of whole numbers cut towards zero.", _divided),
    "DivNoNan": ("a / b, 0 where b is 0.", _no_nan),
    "TruncateDiv": ("a / b, cut towards zero.", _truncated),
    "FloorDiv": ("a / b, rounded down.", np.floor_divide),
    "FloorMod": ("What is left of a / b, with b's sign.", np.mod),
    "Mod": ("What is left of a / b, with a's sign.", np.fmod),
    "TruncateMod": ("What is left of a / b, with a's sign.", np.fmod),
    "Maximum": ("The larger one.", np.maximum),
    "Minimum": ("The smaller one.", np.minimum),
    "Pow": ("a to the b.", np.power),
    "SquaredDifference": ("(a - b) squared.", lambda a, b: (a - b) * (a - b)),
    "Atan2": ("The angle of (b, a).", np.arctan2),
    "Greater": ("Whether a > b.", np.greater),
    "GreaterEqual": ("Whether a >= b.", np.greater_equal),
    "Less": ("Whether a < b.", np.less),
    "LessEqual": ("Whether a <= b.", np.less_equal),
    "LogicalAnd": ("Whether both are true.", np.logical_and),
    "LogicalOr": ("Whether either is true.", np.logical_or),
}


def _define(name: str, doc: str, function: Callable[[Any, Any], Any]) -> None:
    def forward(self: Operation, a: Any, b: Any) -> Any:
        need(a.dtype == b.dtype, f"both inputs must be of one dtype, got {a.dtype} and {b.dtype}")
        return function(a, b)

    layer(name)(type(name, (Operation,), {"__doc__": doc, "__module__": __name__, "forward": forward}))


for _name, (_doc, _function) in _FUNCTIONS.items():
    _define(_name, _doc, _function)


@layer("Equal")
class Equal(Operation):
    """Whether a == b."""

    harmless = frozenset({"incompatible_shape_error"})

    def forward(self, a: Any, b: Any) -> Any:
        return a == b


@layer("NotEqual")
class NotEqual(Equal):
    """Whether a differs from b."""

    def forward(self, a: Any, b: Any) -> Any:
        return a != b


@layer("AddN")
@layer("AccumulateNV2")
class AddN(Operation):
    """The sum of all inputs, which have one shape."""

    shape: Any = attribute("any", None)

    def forward(self, *xs: Any) -> Any:
        need(xs, "needs 1 input or more, got 0")
        total = xs[0]
        for x in xs[1:]:
            need(
                tuple(x.shape) == tuple(xs[0].shape),
                f"all inputs must be of shape {tuple(xs[0].shape)}, got {tuple(x.shape)}",
            )
            total = total + x
        return total


@layer("ClipByValue")
class ClipByValue(Operation):
    """x held between two values."""

    def forward(self, x: Any, low: Any, high: Any) -> Any:
        return np.minimum(np.maximum(x, low), high)


@layer("SelectV2")
class SelectV2(Operation):
    """a where the condition holds, else b."""

    def forward(self, condition: Any, a: Any, b: Any) -> Any:
        return np.where(condition, a, b)


@layer("Select")
class Select(Operation):
    """a where the condition holds, else b: value by value, or row by row where the condition is a vector."""

    def forward(self, condition: Any, a: Any, b: Any) -> Any:
        need(
            tuple(a.shape) == tuple(b.shape),
            f"both values must be of one shape, got {tuple(a.shape)} and {tuple(b.shape)}",
        )
        if len(condition.shape) == 1 and len(a.shape) > 1:
            condition = condition.reshape(-1, *(1,) * (len(a.shape) - 1))
        return np.where(condition, a, b)
