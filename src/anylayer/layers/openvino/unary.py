"""One input, number by number, without attributes."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, layer
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import Operation, family


class Unary(Operation):
    """A function of every number of the input."""

    elementwise = True

    def forward(self, x: Any) -> Any:
        return self.compute(x)

    @staticmethod
    def compute(x: Any) -> Any:
        """The operation itself."""
        raise NotImplementedError


def _softsign(x: Any) -> Any:
    return x / (x.dtype.type(1) + np.abs(x))


def _hswish(x: Any) -> Any:
    one = x.dtype.type
    return x * np.minimum(np.maximum(x + one(3), one(0)), one(6)) / one(6)


def _hsigmoid(x: Any) -> Any:
    one = x.dtype.type
    return np.minimum(np.maximum(x + one(3), one(0)), one(6)) / one(6)


def _mish(x: Any) -> Any:
    return x * np.tanh(ops.softplus(x))


def _asinh(x: Any) -> Any:
    return np.arcsinh(x)


family(
    {
        "Abs": (np.abs, "The absolute value (OpenVINO Abs-1)."),
        "Acos": (np.arccos, "The arc cosine (OpenVINO Acos-1)."),
        "Acosh": (np.arccosh, "The inverse of cosh (OpenVINO Acosh-4)."),
        "Asin": (np.arcsin, "The arc sine (OpenVINO Asin-1)."),
        "Asinh": (_asinh, "The inverse of sinh (OpenVINO Asinh-4)."),
        "Atan": (np.arctan, "The arc tangent (OpenVINO Atan-1)."),
        "Atanh": (np.arctanh, "The inverse of tanh (OpenVINO Atanh-4)."),
        "BitwiseNot": (np.invert, "All bits turned (OpenVINO BitwiseNot-13)."),
        "Ceiling": (np.ceil, "The next whole number upwards (OpenVINO Ceiling-1)."),
        "Cos": (np.cos, "The cosine (OpenVINO Cos-1)."),
        "Cosh": (np.cosh, "The hyperbolic cosine (OpenVINO Cosh-1)."),
        "Erf": (ops.erf, "The error function (OpenVINO Erf-1)."),
        "Exp": (np.exp, "e to the power of x (OpenVINO Exp-1)."),
        "Floor": (np.floor, "The next whole number downwards (OpenVINO Floor-1)."),
        "HSigmoid": (_hsigmoid, "min(max(x + 3, 0), 6) / 6 (OpenVINO HSigmoid-5)."),
        "HSwish": (_hswish, "x times min(max(x + 3, 0), 6) / 6 (OpenVINO HSwish-4)."),
        "Log": (np.log, "The natural logarithm (OpenVINO Log-1)."),
        "LogicalNot": (np.logical_not, "Whether it is false (OpenVINO LogicalNot-1)."),
        "Mish": (_mish, "x times tanh(softplus(x)) (OpenVINO Mish-4)."),
        "Negative": (np.negative, "-x (OpenVINO Negative-1)."),
        "ReLU": (ops.relu, "max(x, 0) (OpenVINO ReLU-1)."),
        "Sigmoid": (ops.sigmoid, "1 / (1 + exp(-x)) (OpenVINO Sigmoid-1)."),
        "Sign": (np.sign, "-1, 0 or 1 (OpenVINO Sign-1)."),
        "Sin": (np.sin, "The sine (OpenVINO Sin-1)."),
        "Sinh": (np.sinh, "The hyperbolic sine (OpenVINO Sinh-1)."),
        "SoftPlus": (ops.softplus, "log(1 + exp(x)) (OpenVINO SoftPlus-4)."),
        "SoftSign": (_softsign, "x / (1 + |x|) (OpenVINO SoftSign-9)."),
        "Sqrt": (np.sqrt, "The square root (OpenVINO Sqrt-1)."),
        "Tan": (np.tan, "The tangent (OpenVINO Tan-1)."),
        "Tanh": (np.tanh, "The hyperbolic tangent (OpenVINO Tanh-1)."),
        "Identity": (lambda x: x, "x (OpenVINO Identity-16)."),
        "IsFinite": (np.isfinite, "Whether it is a finite number (OpenVINO IsFinite-10)."),
        "IsNaN": (np.isnan, "Whether it is not a number (OpenVINO IsNaN-10)."),
    },
    Unary,
    __name__,
)


@layer("Round")
class Round(Operation):
    """The nearest whole number.

    Source: OpenVINO, Round-5.
    """

    elementwise = True
    mode: str = attribute(Enum("half_to_even", "half_away_from_zero"), "half_to_even")

    def forward(self, x: Any) -> Any:
        if x.dtype.kind in "iu":
            return x
        if self.mode == "half_to_even":
            return np.round(x)
        whole = np.floor(np.abs(x))
        return np.sign(x) * (whole + (np.abs(x) - whole >= x.dtype.type(0.5)).astype(x.dtype))


@layer("IsInf")
class IsInf(Operation):
    """Whether it is infinite, of a sign that counts.

    Source: OpenVINO, IsInf-10.
    """

    detect_negative: bool = attribute("bool", True)
    detect_positive: bool = attribute("bool", True)

    def forward(self, x: Any) -> Any:
        found = np.isinf(x)
        if not self.detect_negative:
            found = found & (x > 0)
        return found if self.detect_positive else found & (x < 0)
