"""Elementwise operations on one input."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute
from anylayer.layers._table import computes, operators, row
from anylayer.layers.openvino._base import SAME_SHAPE, SPECIFICATION, OpenVINOLayer


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


operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "Abs": computes("|x|", np.abs, "Abs-1"),
        "Acos": computes("the arccosine of x, in radians", np.arccos, "Acos-1"),
        "Acosh": computes("the inverse hyperbolic cosine of x", np.arccosh, "Acosh-3"),
        "Asin": computes("the arcsine of x, in radians", np.arcsin, "Asin-1"),
        "Asinh": computes("the inverse hyperbolic sine of x", np.arcsinh, "Asinh-3"),
        "Atan": computes("the arctangent of x, in radians", np.arctan, "Atan-1"),
        "Atanh": computes("the inverse hyperbolic tangent of x", np.arctanh, "Atanh-3"),
        "BitwiseNot": computes("~x, the inverse of each bit", np.invert, "BitwiseNot-13"),
        "Ceiling": computes("x, rounded up to an integer", np.ceil, "Ceiling-1"),
        "Cos": computes("the cosine of x, in radians", np.cos, "Cos-1"),
        "Cosh": computes("the hyperbolic cosine of x", np.cosh, "Cosh-1"),
        "Erf": computes("the error function of x", ops.erf, "Erf-1"),
        "Exp": computes("e to the power of x", np.exp, "Exp-1"),
        "Floor": computes("x, rounded down to an integer", np.floor, "Floor-1"),
        "HSigmoid": computes("min(max(x + 3, 0), 6) / 6", _hsigmoid, "HSigmoid-5"),
        "HSwish": computes("x * min(max(x + 3, 0), 6) / 6", _hswish, "HSwish-4"),
        "Log": computes("the natural logarithm of x", np.log, "Log-1"),
        "LogicalNot": computes("whether x is false", np.logical_not, "LogicalNot-1"),
        "Mish": computes("x * tanh(log(1 + exp(x)))", _mish, "Mish-4"),
        "Negative": computes("-x", np.negative, "Negative-1"),
        "ReLU": computes("max(x, 0)", ops.relu, "ReLU-1"),
        "Sigmoid": computes("the logistic function 1 / (1 + exp(-x))", ops.sigmoid, "Sigmoid-1"),
        "Sign": computes("the sign of x: -1, 0 or 1", np.sign, "Sign-1"),
        "Sin": computes("the sine of x, in radians", np.sin, "Sin-1"),
        "Sinh": computes("the hyperbolic sine of x", np.sinh, "Sinh-1"),
        "SoftPlus": computes("log(1 + exp(x))", ops.softplus, "SoftPlus-4"),
        "SoftSign": computes("x / (1 + |x|)", _softsign, "SoftSign-9"),
        "Sqrt": computes("the square root of x", np.sqrt, "Sqrt-1"),
        "Tan": computes("the tangent of x, in radians", np.tan, "Tan-1"),
        "Tanh": computes("the hyperbolic tangent of x", np.tanh, "Tanh-1"),
        "Identity": computes("x itself", lambda x: x, "Identity-16"),
        "IsFinite": computes("whether x is finite", np.isfinite, "IsFinite-10"),
        "IsNaN": computes("whether x is NaN", np.isnan, "IsNaN-10"),
    },
    elementwise=True,
)


def _round(x: Array, mode: str) -> Any:
    if x.dtype.kind in "iu":
        return x
    if mode == "half_to_even":
        return np.round(x)
    lower = np.floor(np.abs(x))
    return np.sign(x) * (lower + (np.abs(x) - lower >= x.dtype.type(0.5)).astype(x.dtype))


def _is_inf(x: Array, detect_negative: bool, detect_positive: bool) -> Any:
    infinite = np.isinf(x)
    if not detect_negative:
        infinite = infinite & (x > 0)
    return infinite if detect_positive else infinite & (x < 0)


operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "Round": row("Round to the nearest integer, halves to the even one or away from zero, as `mode` says.",
            _round, "Round-5", body={"elementwise": True},
            mode=attribute(Enum("half_to_even", "half_away_from_zero"), "half_to_even")),
        "IsInf": row("Compute whether each element is infinite, with a sign that the attributes select.", _is_inf,
            "IsInf-10", detect_negative=attribute("bool", True), detect_positive=attribute("bool", True)),
    },
)  # fmt: skip
