"""Elementwise operations on one input, activation functions, and casts."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, attribute, need
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
