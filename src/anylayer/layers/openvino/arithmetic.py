"""Two inputs, number by number: sums, products, comparisons, logic, bits."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Enum, layer, need
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation, family

BROADCAST = Enum("numpy", "none", "pdpd", "bidirectional", "explicit")


class Binary(Operation):
    """Combine two inputs number by number."""

    auto_broadcast: str = attribute(BROADCAST, "numpy", doc="numpy: sizes of 1 are repeated; none: equal shapes")

    def agree(self, *inputs: Any) -> None:
        """Refuse inputs that the file's way of broadcasting does not fit together."""
        need(
            self.auto_broadcast in ("numpy", "none"),
            f"auto_broadcast '{self.auto_broadcast}' is not supported, numpy and none are",
        )
        shapes = [tuple(x.shape) for x in inputs]
        need(
            self.auto_broadcast == "numpy" or len(set(shapes)) == 1,
            f"auto_broadcast 'none' needs inputs of one shape, got {', '.join(map(str, shapes))}",
        )
        kinds = [x.dtype.name for x in inputs]
        need(len(set(kinds)) == 1, f"needs inputs of one type, got {', '.join(kinds)}")

    def forward(self, a: Any, b: Any) -> Any:
        self.agree(a, b)
        return self.compute(a, b)

    @staticmethod
    def compute(a: Any, b: Any) -> Any:
        """The operation itself."""
        raise NotImplementedError


def _power(a: Any, b: Any) -> Any:
    return np.power(a, b)


def _square(a: Any, b: Any) -> Any:
    difference = a - b
    return difference * difference


family(
    {
        "Add": (np.add, "a + b (OpenVINO Add-1)."),
        "Subtract": (np.subtract, "a - b (OpenVINO Subtract-1)."),
        "Multiply": (np.multiply, "a * b (OpenVINO Multiply-1)."),
        "Maximum": (np.maximum, "The larger of a and b (OpenVINO Maximum-1)."),
        "Minimum": (np.minimum, "The smaller of a and b (OpenVINO Minimum-1)."),
        "Mod": (np.fmod, "The rest of a / b with the sign of a (OpenVINO Mod-1)."),
        "FloorMod": (np.mod, "The rest of a / b with the sign of b (OpenVINO FloorMod-1)."),
        "Power": (_power, "a to the power of b (OpenVINO Power-1)."),
        "SquaredDifference": (_square, "(a - b) squared (OpenVINO SquaredDifference-1)."),
        "Equal": (np.equal, "Whether a = b (OpenVINO Equal-1)."),
        "NotEqual": (np.not_equal, "Whether a differs from b (OpenVINO NotEqual-1)."),
        "Greater": (np.greater, "Whether a > b (OpenVINO Greater-1)."),
        "GreaterEqual": (np.greater_equal, "Whether a >= b (OpenVINO GreaterEqual-1)."),
        "Less": (np.less, "Whether a < b (OpenVINO Less-1)."),
        "LessEqual": (np.less_equal, "Whether a <= b (OpenVINO LessEqual-1)."),
        "LogicalAnd": (np.logical_and, "Whether both are true (OpenVINO LogicalAnd-1)."),
        "LogicalOr": (np.logical_or, "Whether one is true (OpenVINO LogicalOr-1)."),
        "LogicalXor": (np.logical_xor, "Whether just one is true (OpenVINO LogicalXor-1)."),
        "BitwiseAnd": (np.bitwise_and, "a & b (OpenVINO BitwiseAnd-13)."),
        "BitwiseOr": (np.bitwise_or, "a | b (OpenVINO BitwiseOr-13)."),
        "BitwiseXor": (np.bitwise_xor, "a ^ b (OpenVINO BitwiseXor-13)."),
    },
    Binary,
    __name__,
)


@layer("Divide")
class Divide(Binary):
    """a / b; of whole numbers rounded down with `m_pythondiv`, else towards zero.

    Source: OpenVINO, Divide-1.
    """

    m_pythondiv: bool = attribute("bool", True, doc="whole quotients are rounded down")

    def forward(self, a: Any, b: Any) -> Any:
        self.agree(a, b)
        if a.dtype.kind not in "iu":
            return a / b
        if self.m_pythondiv or a.dtype.kind == "u":
            return np.floor_divide(a, b)
        return np.sign(a) * np.sign(b) * np.floor_divide(np.abs(a), np.abs(b))


@layer("Select")
class Select(Binary):
    """b where the first input is true, else c.

    Source: OpenVINO, Select-1.
    """

    def forward(self, where: Any, b: Any, c: Any) -> Any:  # type: ignore[override]
        self.agree(b, c)
        return np.where(where, b, c)
