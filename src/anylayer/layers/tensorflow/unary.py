"""Elementwise operations on one input, and casts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers._family import define
from anylayer.layers.tensorflow._base import Enum, TensorFlowLayer, attribute, layer
from anylayer.network import Array


class Unary(TensorFlowLayer):
    """A function of each element."""

    function: Callable[[Any], Any]

    def forward(self, x: Array) -> Any:
        return type(self).function(x)


def family(functions: Mapping[str, tuple[str, Callable[[Any], Any]]], file: str) -> None:
    """Define operations by what each computes and its function. `file` is their source in TensorFlow."""
    for name, (what, function) in functions.items():
        source = f"Source: tf.raw_ops.{name}; tensorflow/core/kernels/{file}."
        details = f"The function applies to each element. The output has the shape of the input.\n    {source}"
        define(name, Unary, f"Compute {what}.", details, function=staticmethod(function))


family(
    {
        "Abs": ("|x|", np.abs),
        "Neg": ("-x", np.negative),
        "Sign": ("the sign of x: -1, 0 or 1", np.sign),
        "Square": ("x * x", lambda x: x * x),
        "Sqrt": ("the square root of x", np.sqrt),
        "Rsqrt": ("1 / sqrt(x)", lambda x: 1 / np.sqrt(x)),
        "Reciprocal": ("1 / x", lambda x: 1 / x),
        "Inv": ("1 / x", lambda x: 1 / x),
        "Exp": ("e to the power of x", np.exp),
        "Expm1": ("exp(x) - 1", np.expm1),
        "Log": ("the natural logarithm of x", np.log),
        "Log1p": ("log(1 + x)", np.log1p),
        "Tanh": ("the hyperbolic tangent of x", np.tanh),
        "Sinh": ("the hyperbolic sine of x", np.sinh),
        "Cosh": ("the hyperbolic cosine of x", np.cosh),
        "Sin": ("the sine of x, in radians", np.sin),
        "Cos": ("the cosine of x, in radians", np.cos),
        "Tan": ("the tangent of x, in radians", np.tan),
        "Asin": ("the arcsine of x, in radians", np.arcsin),
        "Acos": ("the arccosine of x, in radians", np.arccos),
        "Atan": ("the arctangent of x, in radians", np.arctan),
        "Floor": ("x, rounded down to an integer", np.floor),
        "Ceil": ("x, rounded up to an integer", np.ceil),
        "Round": ("x, rounded to the nearest integer, halves to the even one", np.round),
        "Rint": ("x, rounded to the nearest integer, halves to the even one", np.rint),
        "Erf": ("the error function of x", ops.erf),
        "LogicalNot": ("whether x is false", np.logical_not),
        "IsNan": ("whether x is NaN", np.isnan),
        "IsInf": ("whether x is infinite", np.isinf),
        "IsFinite": ("whether x is finite", np.isfinite),
    },
    "cwise_ops.h",
)


@layer("ZerosLike")
class ZerosLike(TensorFlowLayer):
    """Return zeros with the shape and the dtype of the input.

    Source: tf.raw_ops.ZerosLike; tensorflow/core/kernels/constant_op.cc.
    """

    def forward(self, x: Array) -> Array:
        return np.broadcast_to(np.zeros((), x.dtype), x.shape)


@layer("OnesLike")
class OnesLike(TensorFlowLayer):
    """Return ones with the shape and the dtype of the input.

    Source: tf.raw_ops.OnesLike; tensorflow/core/kernels/constant_op.cc.
    """

    def forward(self, x: Array) -> Array:
        return np.broadcast_to(np.ones((), x.dtype), x.shape)


@layer("Cast")
class Cast(TensorFlowLayer):
    """Cast the elements to the dtype DstT; real numbers are truncated to integers.

    Source: tf.raw_ops.Cast; tensorflow/core/kernels/cast_op.cc.
    """

    DstT: str = attribute(
        Enum(
            "bool",
            "float16",
            "float32",
            "float64",
            *(f"{sign}int{n}" for sign in ("", "u") for n in (8, 16, 32, 64)),
        )
    )
    harmless = frozenset({"SrcT", "Truncate"})

    def forward(self, x: Array) -> Array:
        return x.astype(self.DstT)
