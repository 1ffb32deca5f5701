"""Elementwise operations on two inputs: arithmetic, comparison, logic, bits; and Select."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Enum, layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import OpenVINOLayer, family
from anylayer.network import Array

BROADCAST = Enum("numpy", "none", "pdpd", "bidirectional", "explicit")


class Broadcasting(OpenVINOLayer):
    """An elementwise operation on inputs of one dtype that broadcast."""

    auto_broadcast: str = attribute(BROADCAST, "numpy", doc="numpy: shapes broadcast; none: shapes are equal")

    def agree(self, *inputs: Any) -> None:
        """Refuse inputs whose shapes do not broadcast as auto_broadcast says, or whose dtypes differ."""
        need(
            self.auto_broadcast in ("numpy", "none"),
            f"auto_broadcast '{self.auto_broadcast}' is not supported; supported: numpy, none",
        )
        shapes = [tuple(x.shape) for x in inputs]
        need(
            self.auto_broadcast == "numpy" or len(set(shapes)) == 1,
            f"auto_broadcast 'none' needs inputs of equal shapes, got {', '.join(map(str, shapes))}",
        )
        kinds = [x.dtype.name for x in inputs]
        need(len(set(kinds)) == 1, f"needs inputs of one dtype, got {', '.join(kinds)}")


class Binary(Broadcasting):
    """An operation of two arrays, element by element."""

    def forward(self, a: Array, b: Array) -> Any:
        self.agree(a, b)
        return self.compute(a, b)

    @staticmethod
    def compute(a: Any, b: Any) -> Any:
        """Return the result for two inputs of one dtype."""
        raise NotImplementedError


def _square(a: Array, b: Array) -> Any:
    difference = a - b
    return difference * difference


family(
    {
        "Add": (np.add, "a + b", "Add-1"),
        "Subtract": (np.subtract, "a - b", "Subtract-1"),
        "Multiply": (np.multiply, "a * b", "Multiply-1"),
        "Maximum": (np.maximum, "the larger of a and b", "Maximum-1"),
        "Minimum": (np.minimum, "the smaller of a and b", "Minimum-1"),
        "Mod": (np.fmod, "the remainder of a / b, with the sign of a", "Mod-1"),
        "FloorMod": (np.mod, "the remainder of a / b, with the sign of b", "FloorMod-1"),
        "Power": (np.power, "a to the power of b", "Power-1"),
        "SquaredDifference": (_square, "(a - b) * (a - b)", "SquaredDifference-1"),
        "Equal": (np.equal, "whether a = b", "Equal-1"),
        "NotEqual": (np.not_equal, "whether a differs from b", "NotEqual-1"),
        "Greater": (np.greater, "whether a > b", "Greater-1"),
        "GreaterEqual": (np.greater_equal, "whether a >= b", "GreaterEqual-1"),
        "Less": (np.less, "whether a < b", "Less-1"),
        "LessEqual": (np.less_equal, "whether a <= b", "LessEqual-1"),
        "LogicalAnd": (np.logical_and, "whether both a and b are true", "LogicalAnd-1"),
        "LogicalOr": (np.logical_or, "whether a or b is true", "LogicalOr-1"),
        "LogicalXor": (np.logical_xor, "whether exactly one of a and b is true", "LogicalXor-1"),
        "BitwiseAnd": (np.bitwise_and, "a & b, bit by bit", "BitwiseAnd-13"),
        "BitwiseOr": (np.bitwise_or, "a | b, bit by bit", "BitwiseOr-13"),
        "BitwiseXor": (np.bitwise_xor, "a ^ b, bit by bit", "BitwiseXor-13"),
    },
    Binary,
    "a and b have one dtype, and their shapes broadcast as auto_broadcast says.",
)


@layer("Divide")
class Divide(Binary):
    """Compute a / b; integers are rounded down with m_pythondiv, else towards zero.

    a and b have one dtype, and their shapes broadcast as auto_broadcast says.
    Source: OpenVINO operation specification, Divide-1.
    """

    m_pythondiv: bool = attribute("bool", True, doc="whether quotients of integers are rounded down")

    def forward(self, a: Array, b: Array) -> Array:
        self.agree(a, b)
        if a.dtype.kind not in "iu":
            return a / b
        if self.m_pythondiv or a.dtype.kind == "u":
            return np.floor_divide(a, b)
        return np.sign(a) * np.sign(b) * np.floor_divide(np.abs(a), np.abs(b))


@layer("Select")
class Select(Broadcasting):
    """Select a where the condition is true, else b.

    Inputs: a boolean condition, a and b, whose shapes broadcast.
    Source: OpenVINO operation specification, Select-1.
    """

    def forward(self, condition: Array, a: Array, b: Array) -> Array:
        self.agree(a, b)
        return np.where(condition, a, b)
