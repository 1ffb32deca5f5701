"""Elementwise operations: arithmetic, comparison, logic, bits, casts, and activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import number
from anylayer.layers._arrays import round_half_away
from anylayer.layers._table import computes, operators, row
from anylayer.layers.openvino._base import SAME_SHAPE, SPECIFICATION, OpenVINOLayer, dtype_of


def _hswish(x: Array) -> Array:
    one = x.dtype.type
    return x * np.minimum(np.maximum(x + one(3), one(0)), one(6)) / one(6)


def _hsigmoid(x: Array) -> Array:
    one = x.dtype.type
    return np.minimum(np.maximum(x + one(3), one(0)), one(6)) / one(6)


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
        "Mish": computes("x * tanh(log(1 + exp(x)))", lambda x: x * np.tanh(ops.softplus(x)), "Mish-4"),
        "Negative": computes("-x", np.negative, "Negative-1"),
        "ReLU": computes("max(x, 0)", ops.relu, "ReLU-1"),
        "Sigmoid": computes("the logistic function 1 / (1 + exp(-x))", ops.sigmoid, "Sigmoid-1"),
        "Sign": computes("the sign of x: -1, 0 or 1", np.sign, "Sign-1"),
        "Sin": computes("the sine of x, in radians", np.sin, "Sin-1"),
        "Sinh": computes("the hyperbolic sine of x", np.sinh, "Sinh-1"),
        "SoftPlus": computes("log(1 + exp(x))", ops.softplus, "SoftPlus-4"),
        "SoftSign": computes("x / (1 + |x|)", lambda x: x / (x.dtype.type(1) + np.abs(x)), "SoftSign-9"),
        "Sqrt": computes("the square root of x", np.sqrt, "Sqrt-1"),
        "Tan": computes("the tangent of x, in radians", np.tan, "Tan-1"),
        "Tanh": computes("the hyperbolic tangent of x", np.tanh, "Tanh-1"),
        "Identity": computes("x itself", lambda x: x, "Identity-16"),
        "IsFinite": computes("whether x is finite", np.isfinite, "IsFinite-10"),
        "IsNaN": computes("whether x is NaN", np.isnan, "IsNaN-10"),
    },
    elementwise=True,
)


def _round(x: Array, mode: str) -> Array:
    if x.dtype.kind in "iu":
        return x
    return np.round(x) if mode == "half_to_even" else round_half_away(x)


def _is_inf(x: Array, detect_negative: bool, detect_positive: bool) -> Array:
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


def _square(a: Array, b: Array) -> Array:
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


def _clamp(x: Array, min: float, max: float) -> Array:
    if x.dtype.kind in "iu":
        limits = np.iinfo(x.dtype)
        low = x.dtype.type(np.clip(np.ceil(min), limits.min, limits.max))
        high = x.dtype.type(np.clip(np.floor(max), limits.min, limits.max))
    else:
        with np.errstate(over="ignore"):
            low, high = x.dtype.type(min), x.dtype.type(max)
    return np.minimum(np.maximum(x, low), high)


def _prelu(x: Array, slope: Array) -> Array:
    rank = len(x.shape)
    if len(slope.shape) == 1 and slope.shape[0] != 1 and rank > 1:
        need(
            slope.shape[0] == x.shape[1],
            f"the slope has {slope.shape[0]} numbers, but the input has {x.shape[1]} channels",
        )
        slope = slope.reshape(slope.shape[0], *[1] * (rank - 2))
    return np.where(x < x.dtype.type(0), x * slope, x)


operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "Clamp": row("Compute min(max(x, min), max) of each element.", _clamp, "Clamp-1",
            min=attribute("double"), max=attribute("double")),
        "PReLU": row("Compute x where x >= 0, else slope * x.", _prelu, "PReLU-1",
            "The slope broadcasts to x; a slope of rank 1 has one number per channel (axis 1)."),
        "Elu": row("Compute x where x > 0, else alpha * (exp(x) - 1).", ops.elu, "Elu-1",
            alpha=attribute("float")),
        "Gelu": row("Compute x * P(X <= x) for a standard normal X, or its tanh approximation.",
            lambda x, approximation_mode: ops.gelu(x, approximate=approximation_mode.replace("erf", "none")),
            "Gelu-2 and Gelu-7", approximation_mode=attribute(Enum("erf", "tanh"), "erf")),
        "Swish": computes("x * sigmoid(beta * x), where beta is 1 when it is not given",
            lambda x, beta=None: x * ops.sigmoid(x if beta is None else x * beta), "Swish-4"),
        "HardSigmoid": row(
            "Compute max(0, min(1, alpha * x + beta)), where alpha and beta are constant scalars.",
            lambda x, alpha, beta: ops.hard_sigmoid(x, alpha=alpha, beta=beta), "HardSigmoid-1",
            alpha=number, beta=number),
        "Selu": row(
            "Compute scale * x where x > 0, else scale * alpha * (exp(x) - 1), where both are constant scalars.",
            lambda x, alpha, scale: x.dtype.type(scale) * ops.elu(x, alpha=alpha), "Selu-1",
            alpha=number, scale=number),
    },
    elementwise=True,
)  # fmt: skip
operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "SoftMax": computes("exp(x), divided by its sum along `axis`", ops.softmax, "SoftMax-1"),
        "Softmax": computes(
            "exp(x), divided by its sum along `axis`: SoftMax by its newer name", ops.softmax, "SoftMax-8"
        ),
        "LogSoftmax": computes(
            "x minus the logarithm of the sum of exp(x) along `axis`", ops.log_softmax, "LogSoftmax-5"
        ),
    },
    attributes={"axis": attribute("int64", 1)},
)


def _cast(x: Array, dtype: Any) -> Array:
    """Return `x` cast to `dtype`, or `x` itself when it has that dtype."""
    if x.dtype == dtype:
        return x
    return x != x.dtype.type(0) if dtype == np.bool_ else x.astype(dtype)


operators(
    OpenVINOLayer,
    f"{SAME_SHAPE}\n    {SPECIFICATION}",
    {
        "Convert": row("Cast the elements to destination_type; real numbers are truncated to integers.",
            lambda x, destination_type: _cast(x, dtype_of(destination_type, "destination_type")), "Convert-1",
            destination_type=attribute("string")),
        "ConvertLike": row("Cast the elements to the dtype of the second input.",
            lambda x, like: _cast(x, like.dtype), "ConvertLike-1"),
    },
)  # fmt: skip
