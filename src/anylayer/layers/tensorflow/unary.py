"""Elementwise operations on one input, and casts."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Enum, attribute
from anylayer.layers._table import computes, operators, row
from anylayer.layers.tensorflow._base import SAME_SHAPE, SOURCE, TensorFlowLayer

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
