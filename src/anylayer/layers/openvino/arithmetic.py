"""Elementwise operations on two inputs: arithmetic, comparison, logic, bits; and Select."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Array, Enum, attribute, need
from anylayer.layers._table import computes, operators, row
from anylayer.layers.openvino._base import SPECIFICATION, OpenVINOLayer

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


def _square(a: Array, b: Array) -> Any:
    difference = a - b
    return difference * difference


operators(
    Broadcasting,
    f"a and b have one dtype, and their shapes broadcast as auto_broadcast says.\n    {SPECIFICATION}",
    {
        "Add": computes("a + b", np.add, "Add-1"),
        "Subtract": computes("a - b", np.subtract, "Subtract-1"),
        "Multiply": computes("a * b", np.multiply, "Multiply-1"),
        "Maximum": computes("the larger of a and b", np.maximum, "Maximum-1"),
        "Minimum": computes("the smaller of a and b", np.minimum, "Minimum-1"),
        "Mod": computes("the remainder of a / b, with the sign of a", np.fmod, "Mod-1"),
        "FloorMod": computes("the remainder of a / b, with the sign of b", np.mod, "FloorMod-1"),
        "Power": computes("a to the power of b", np.power, "Power-1"),
        "SquaredDifference": computes("(a - b) * (a - b)", _square, "SquaredDifference-1"),
        "Equal": computes("whether a = b", np.equal, "Equal-1"),
        "NotEqual": computes("whether a differs from b", np.not_equal, "NotEqual-1"),
        "Greater": computes("whether a > b", np.greater, "Greater-1"),
        "GreaterEqual": computes("whether a >= b", np.greater_equal, "GreaterEqual-1"),
        "Less": computes("whether a < b", np.less, "Less-1"),
        "LessEqual": computes("whether a <= b", np.less_equal, "LessEqual-1"),
        "LogicalAnd": computes("whether both a and b are true", np.logical_and, "LogicalAnd-1"),
        "LogicalOr": computes("whether a or b is true", np.logical_or, "LogicalOr-1"),
        "LogicalXor": computes("whether exactly one of a and b is true", np.logical_xor, "LogicalXor-1"),
        "BitwiseAnd": computes("a & b, bit by bit", np.bitwise_and, "BitwiseAnd-13"),
        "BitwiseOr": computes("a | b, bit by bit", np.bitwise_or, "BitwiseOr-13"),
        "BitwiseXor": computes("a ^ b, bit by bit", np.bitwise_xor, "BitwiseXor-13"),
    },
    check=Broadcasting.agree,
)


def _divide(a: Array, b: Array, m_pythondiv: bool) -> Array:
    if a.dtype.kind not in "iu":
        return a / b
    if m_pythondiv or a.dtype.kind == "u":
        return np.floor_divide(a, b)
    return np.sign(a) * np.sign(b) * np.floor_divide(np.abs(a), np.abs(b))


operators(
    Broadcasting,
    f"a and b have one dtype, and their shapes broadcast as auto_broadcast says.\n    {SPECIFICATION}",
    {
        "Divide": row("Compute a / b; integers are rounded down with m_pythondiv, else towards zero.", _divide,
            "Divide-1",
            m_pythondiv=attribute("bool", True, doc="whether quotients of integers are rounded down")),
        "Select": row("Select a where the condition is true, else b.",
            lambda condition, a, b: np.where(condition, a, b), "Select-1"),
    },
    check=lambda self, *inputs: self.agree(*inputs[-2:]),
)  # fmt: skip
