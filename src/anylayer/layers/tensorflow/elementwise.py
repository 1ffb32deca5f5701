"""Elementwise operations, activation functions, and casts."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, attribute, need, need_shape
from anylayer.layers._table import computes, operators, row
from anylayer.layers.tensorflow._base import SAME_SHAPE, SOURCE, TensorFlowLayer


def _need_axis(self: Layer, x: Array) -> None:
    need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")


operators(
    TensorFlowLayer,
    f"{SAME_SHAPE}\n    {SOURCE}cwise_ops.h.",
    {
        "Abs": computes("|x|", np.abs),
        "Neg": computes("-x", np.negative),
        "Sign": computes("the sign of x: -1, 0 or 1", np.sign),
        "Square": computes("x * x", lambda x: x * x),
        "Sqrt": computes("the square root of x", np.sqrt),
        "Rsqrt": computes("1 / sqrt(x)", lambda x: 1 / np.sqrt(x)),
        "Reciprocal": computes("1 / x", lambda x: 1 / x),
        "Inv": computes("1 / x", lambda x: 1 / x),
        "Exp": computes("e to the power of x", np.exp),
        "Expm1": computes("exp(x) - 1", np.expm1),
        "Log": computes("the natural logarithm of x", np.log),
        "Log1p": computes("log(1 + x)", np.log1p),
        "Tanh": computes("the hyperbolic tangent of x", np.tanh),
        "Sinh": computes("the hyperbolic sine of x", np.sinh),
        "Cosh": computes("the hyperbolic cosine of x", np.cosh),
        "Sin": computes("the sine of x, in radians", np.sin),
        "Cos": computes("the cosine of x, in radians", np.cos),
        "Tan": computes("the tangent of x, in radians", np.tan),
        "Asin": computes("the arcsine of x, in radians", np.arcsin),
        "Acos": computes("the arccosine of x, in radians", np.arccos),
        "Atan": computes("the arctangent of x, in radians", np.arctan),
        "Floor": computes("x, rounded down to an integer", np.floor),
        "Ceil": computes("x, rounded up to an integer", np.ceil),
        "Round": computes("x, rounded to the nearest integer, halves to the even one", np.round),
        "Rint": computes("x, rounded to the nearest integer, halves to the even one", np.rint),
        "Erf": computes("the error function of x", ops.erf),
        "LogicalNot": computes("whether x is false", np.logical_not),
        "IsNan": computes("whether x is NaN", np.isnan),
        "IsInf": computes("whether x is infinite", np.isinf),
        "IsFinite": computes("whether x is finite", np.isfinite),
    },
)

operators(
    TensorFlowLayer,
    f"{SAME_SHAPE}\n    {SOURCE}{{}}.",
    {
        "Relu": computes("max(x, 0)", ops.relu, "relu_op_functor.h"),
        "Relu6": computes("min(max(x, 0), 6)", lambda x: np.clip(x, 0, 6), "relu_op_functor.h"),
        "Elu": computes("x where x > 0, else exp(x) - 1", lambda x: ops.elu(x, 1.0), "relu_op_functor.h"),
        "LeakyRelu": row("Compute x where x > 0, else alpha * x.", ops.leaky_relu, "relu_op_functor.h",
            alpha=attribute("float", 0.2, doc="slope of the negative part")),
        # The constants are those of Klambauer et al., Self-Normalizing Neural Networks (arXiv 1706.02515).
        "Selu": computes("1.0507 * x where x > 0, else 1.7581 * (exp(x) - 1)",
            lambda x: ops.elu(x, 1.6732632423543772) * 1.0507009873554805, "relu_op_functor.h"),
        "Softplus": computes("log(1 + exp(x))", ops.softplus, "softplus_op.h"),
        "Softsign": computes("x / (1 + |x|)", lambda x: x / (1 + np.abs(x)), "softsign_op.h"),
        "Sigmoid": computes("the logistic function 1 / (1 + exp(-x))", ops.sigmoid, "cwise_ops.h"),
    },
)  # fmt: skip
operators(
    TensorFlowLayer,
    f"The output has the shape of the input.\n    {SOURCE}softmax_op.cc.",
    {
        "Softmax": computes("exp(x), divided by its sum over the last axis", lambda x: ops.softmax(x, axis=-1)),
        "LogSoftmax": computes(
            "x minus the logarithm of the sum of exp(x) over the last axis", lambda x: ops.log_softmax(x, axis=-1)
        ),
    },
    check=_need_axis,
)

_INTEGERS = [f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)]
_DTYPES = Enum("bool", "float16", "float32", "float64", *_INTEGERS)

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "ZerosLike": row("Return zeros with the shape and the dtype of the input.",
            lambda x: np.broadcast_to(np.zeros((), x.dtype), x.shape), "constant_op.cc"),
        "OnesLike": row("Return ones with the shape and the dtype of the input.",
            lambda x: np.broadcast_to(np.ones((), x.dtype), x.shape), "constant_op.cc"),
        "Cast": row("Cast the elements to the dtype DstT; real numbers are truncated to integers.",
            lambda x, DstT: x.astype(DstT), "cast_op.cc", body={"harmless": frozenset({"SrcT", "Truncate"})},
            DstT=attribute(_DTYPES)),
    },
)  # fmt: skip


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


def _need_one_dtype(self: TensorFlowLayer, a: Array, b: Array) -> None:
    need(a.dtype == b.dtype, f"both inputs must have the same dtype, got {a.dtype} and {b.dtype}")


operators(
    TensorFlowLayer,
    f"a and b have one dtype, and their shapes broadcast as in NumPy.\n    {SOURCE}cwise_ops.h.",
    {
        "Add": computes("a + b", np.add),
        "AddV2": computes("a + b", np.add),
        "Sub": computes("a - b", np.subtract),
        "Mul": computes("a * b", np.multiply),
        "RealDiv": computes("a / b", np.true_divide),
        "Div": computes("a / b, rounded towards zero for integers", _quotient),
        "DivNoNan": computes("a / b, or 0 where b is 0", _no_nan),
        "TruncateDiv": computes("a / b, rounded towards zero", _truncating_quotient),
        "FloorDiv": computes("a / b, rounded down", np.floor_divide),
        "FloorMod": computes("the remainder of a / b, with the sign of b", np.mod),
        "Mod": computes("the remainder of a / b, with the sign of a", np.fmod),
        "TruncateMod": computes("the remainder of a / b, with the sign of a", np.fmod),
        "Maximum": computes("the larger of a and b", np.maximum),
        "Minimum": computes("the smaller of a and b", np.minimum),
        "Pow": computes("a to the power of b", np.power),
        "SquaredDifference": computes("(a - b) * (a - b)", lambda a, b: (a - b) * (a - b)),
        "Atan2": computes("the angle of the point (b, a), in radians", np.arctan2),
        "Greater": computes("whether a > b", np.greater),
        "GreaterEqual": computes("whether a >= b", np.greater_equal),
        "Less": computes("whether a < b", np.less),
        "LessEqual": computes("whether a <= b", np.less_equal),
        "LogicalAnd": computes("whether both a and b are true", np.logical_and),
        "LogicalOr": computes("whether a or b is true", np.logical_or),
    },
    check=_need_one_dtype,
)


def _add_n(*xs: Array) -> Array:
    need(xs, "needs 1 input or more, got 0")
    total = xs[0]
    for x in xs[1:]:
        need_shape(x, tuple(xs[0].shape), "each input", about=", as the first")
        total = total + x
    return total


def _select(condition: Array, a: Array, b: Array) -> Array:
    need_shape(b, tuple(a.shape), "the second value", about=", as the first")
    if len(condition.shape) == 1 and len(a.shape) > 1:
        condition = condition.reshape(-1, *(1,) * (len(a.shape) - 1))
    return np.where(condition, a, b)


def _bias_add(x: Array, bias: Array, data_format: str) -> Array:
    rank = len(x.shape)
    need(rank >= 2, f"the input must have 2 axes or more, got shape {tuple(x.shape)}")
    axis = 1 if data_format == "NCHW" else rank - 1
    need_shape(bias, (x.shape[axis],), "the bias", about=", one number per channel")
    return x + bias.reshape(-1, *(1,) * (rank - 1 - axis))


_EQUALITY = {"harmless": frozenset({"incompatible_shape_error"})}
_SUM = row("Compute the sum of all inputs, which have equal shapes.", _add_n, "aggregate_ops.cc",
    body={"shape": attribute("any", None)})  # fmt: skip
_BIAS = row("Add one bias per channel.", _bias_add, "bias_op.cc",
    "Inputs: x of rank 2 or more and a bias of shape (C,), where C is the size of the last axis, or of axis 1 "
    "with data_format NCHW.", data_format=attribute(Enum("NHWC", "NCHW"), "NHWC"))  # fmt: skip

operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "BiasAdd": _BIAS,
        "BiasAddV1": _BIAS,
        "Equal": row("Compute whether a == b, whose shapes broadcast as in NumPy.", lambda a, b: a == b,
            "cwise_ops.h", body=_EQUALITY),
        "NotEqual": row("Compute whether a != b, whose shapes broadcast as in NumPy.", lambda a, b: a != b,
            "cwise_ops.h", body=_EQUALITY),
        "AddN": _SUM,
        "AccumulateNV2": _SUM,
        "ClipByValue": row("Clip x to the interval from low to high: min(max(x, low), high).",
            lambda x, low, high: np.minimum(np.maximum(x, low), high), "cwise_op_clip.cc",
            "low and high broadcast to the shape of x."),
        "SelectV2": row("Select a where the condition is true, else b.",
            lambda condition, a, b: np.where(condition, a, b), "cwise_op_select.cc",
            "The shapes of all three inputs broadcast as in NumPy."),
        "Select": row("Select a where the condition is true, else b; a condition of rank 1 selects whole rows.",
            _select, "cwise_op_select.cc",
            "a and b have equal shapes. The condition has their shape, or one value per index of axis 0."),
    },
)  # fmt: skip
