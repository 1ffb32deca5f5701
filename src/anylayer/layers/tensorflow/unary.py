"""Functions of each value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Enum, Operation, attribute, layer

_FUNCTIONS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "Abs": ("|x|.", np.abs),
    "Neg": ("-x.", np.negative),
    "Sign": ("-1, 0 or 1.", np.sign),
    "Square": ("x * x.", lambda x: x * x),
    "Sqrt": ("The square root.", np.sqrt),
    "Rsqrt": ("1 / sqrt(x).", lambda x: 1 / np.sqrt(x)),
    "Reciprocal": ("1 / x.", lambda x: 1 / x),
    "Inv": ("1 / x.", lambda x: 1 / x),
    "Exp": ("e to the x.", np.exp),
    "Expm1": ("e to the x, less 1.", np.expm1),
    "Log": ("The natural logarithm.", np.log),
    "Log1p": ("log(1 + x).", np.log1p),
    "Tanh": ("The hyperbolic tangent.", np.tanh),
    "Sinh": ("The hyperbolic sine.", np.sinh),
    "Cosh": ("The hyperbolic cosine.", np.cosh),
    "Sin": ("The sine.", np.sin),
    "Cos": ("The cosine.", np.cos),
    "Tan": ("The tangent.", np.tan),
    "Asin": ("The inverse of the sine.", np.arcsin),
    "Acos": ("The inverse of the cosine.", np.arccos),
    "Atan": ("The inverse of the tangent.", np.arctan),
    "Floor": ("The next whole number below.", np.floor),
    "Ceil": ("The next whole number above.", np.ceil),
    "Round": ("The nearest whole number, of two the even one.", np.round),
    "Rint": ("The nearest whole number, of two the even one.", np.rint),
    "Erf": ("The error function.", ops.erf),
    "LogicalNot": ("Whether it is false.", np.logical_not),
    "IsNan": ("Whether it is no number.", np.isnan),
    "IsInf": ("Whether it is infinite.", np.isinf),
    "IsFinite": ("Whether it is finite.", np.isfinite),
    "ZerosLike": ("Zeros of its shape.", lambda x: np.broadcast_to(np.zeros((), x.dtype), x.shape)),
    "OnesLike": ("Ones of its shape.", lambda x: np.broadcast_to(np.ones((), x.dtype), x.shape)),
}


def _define(name: str, doc: str, function: Callable[[Any], Any]) -> None:
    def forward(self: Operation, x: Any) -> Any:
        return function(x)

    layer(name)(type(name, (Operation,), {"__doc__": doc, "__module__": __name__, "forward": forward}))


for _name, (_doc, _function) in _FUNCTIONS.items():
    _define(_name, _doc, _function)


@layer("Cast")
class Cast(Operation):
    """The values as another dtype: fractions are cut off."""

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

    def forward(self, x: Any) -> Any:
        return x.astype(self.DstT)
