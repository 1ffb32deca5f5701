"""Elementwise operations on one input."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, layer
from anylayer.layer.fields import attribute
from anylayer.layers.openvino._base import OpenVINOLayer, family
from anylayer.network import Array


class Unary(OpenVINOLayer):
    """A function of each element."""

    elementwise = True

    def forward(self, x: Array) -> Any:
        return self.compute(x)

    @staticmethod
    def compute(x: Any) -> Any:
        """Return the result for the input `x`."""
        raise NotImplementedError


def _softsign(x: Array) -> Any:
    return x / (x.dtype.type(1) + np.abs(x))


def _hswish(x: Array) -> Any:
    one = x.dtype.type
    return x * np.minimum(np.maximum(x + one(3), one(0)), one(6)) / one(6)


def _hsigmoid(x: Array) -> Any:
    one = x.dtype.type
    return np.minimum(np.maximum(x + one(3), one(0)), one(6)) / one(6)


def _mish(x: Array) -> Any:
    return x * np.tanh(ops.softplus(x))


family(
    {
        "Abs": (np.abs, "|x|", "Abs-1"),
        "Acos": (np.arccos, "the arccosine of x, in radians", "Acos-1"),
        "Acosh": (np.arccosh, "the inverse hyperbolic cosine of x", "Acosh-3"),
        "Asin": (np.arcsin, "the arcsine of x, in radians", "Asin-1"),
        "Asinh": (np.arcsinh, "the inverse hyperbolic sine of x", "Asinh-3"),
        "Atan": (np.arctan, "the arctangent of x, in radians", "Atan-1"),
        "Atanh": (np.arctanh, "the inverse hyperbolic tangent of x", "Atanh-3"),
        "BitwiseNot": (np.invert, "~x, the inverse of each bit", "BitwiseNot-13"),
        "Ceiling": (np.ceil, "x, rounded up to an integer", "Ceiling-1"),
        "Cos": (np.cos, "the cosine of x, in radians", "Cos-1"),
        "Cosh": (np.cosh, "the hyperbolic cosine of x", "Cosh-1"),
        "Erf": (ops.erf, "the error function of x", "Erf-1"),
        "Exp": (np.exp, "e to the power of x", "Exp-1"),
        "Floor": (np.floor, "x, rounded down to an integer", "Floor-1"),
        "HSigmoid": (_hsigmoid, "min(max(x + 3, 0), 6) / 6", "HSigmoid-5"),
        "HSwish": (_hswish, "x * min(max(x + 3, 0), 6) / 6", "HSwish-4"),
        "Log": (np.log, "the natural logarithm of x", "Log-1"),
        "LogicalNot": (np.logical_not, "whether x is false", "LogicalNot-1"),
        "Mish": (_mish, "x * tanh(log(1 + exp(x)))", "Mish-4"),
        "Negative": (np.negative, "-x", "Negative-1"),
        "ReLU": (ops.relu, "max(x, 0)", "ReLU-1"),
        "Sigmoid": (ops.sigmoid, "the logistic function 1 / (1 + exp(-x))", "Sigmoid-1"),
        "Sign": (np.sign, "the sign of x: -1, 0 or 1", "Sign-1"),
        "Sin": (np.sin, "the sine of x, in radians", "Sin-1"),
        "Sinh": (np.sinh, "the hyperbolic sine of x", "Sinh-1"),
        "SoftPlus": (ops.softplus, "log(1 + exp(x))", "SoftPlus-4"),
        "SoftSign": (_softsign, "x / (1 + |x|)", "SoftSign-9"),
        "Sqrt": (np.sqrt, "the square root of x", "Sqrt-1"),
        "Tan": (np.tan, "the tangent of x, in radians", "Tan-1"),
        "Tanh": (np.tanh, "the hyperbolic tangent of x", "Tanh-1"),
        "Identity": (lambda x: x, "x itself", "Identity-16"),
        "IsFinite": (np.isfinite, "whether x is finite", "IsFinite-10"),
        "IsNaN": (np.isnan, "whether x is NaN", "IsNaN-10"),
    },
    Unary,
    "The output has the shape of x.",
)


@layer("Round")
class Round(OpenVINOLayer):
    """Round to the nearest integer, halves to the even one or away from zero, as `mode` says.

    The output has the shape of x.
    Source: OpenVINO operation specification, Round-5.
    """

    elementwise = True
    mode: str = attribute(Enum("half_to_even", "half_away_from_zero"), "half_to_even")

    def forward(self, x: Array) -> Any:
        if x.dtype.kind in "iu":
            return x
        if self.mode == "half_to_even":
            return np.round(x)
        lower = np.floor(np.abs(x))
        return np.sign(x) * (lower + (np.abs(x) - lower >= x.dtype.type(0.5)).astype(x.dtype))


@layer("IsInf")
class IsInf(OpenVINOLayer):
    """Compute whether each element is infinite, with a sign that the attributes select.

    The output has the shape of x.
    Source: OpenVINO operation specification, IsInf-10.
    """

    detect_negative: bool = attribute("bool", True)
    detect_positive: bool = attribute("bool", True)

    def forward(self, x: Array) -> Array:
        infinite = np.isinf(x)
        if not self.detect_negative:
            infinite = infinite & (x > 0)
        return infinite if self.detect_positive else infinite & (x < 0)
