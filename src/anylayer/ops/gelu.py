"""GELU."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from anylayer.errors import need
from anylayer.ops._elementwise import Pieces
from anylayer.ops._operator import operator
from anylayer.ops.erf import erf

_ROOT = math.sqrt(2 / math.pi)


@operator
def gelu(x: Any, approximate: Literal["none", "tanh"] = "none") -> Any:
    """x * P(z < x) for a standard normal z, or its approximation by tanh (arXiv 1606.08415; ONNX Gelu-20)."""
    _check(approximate)
    kind = x.dtype.type
    if approximate == "none":
        return kind(0.5) * x * (1 + erf(x * kind(math.sqrt(0.5))))
    return kind(0.5) * x * (1 + np.tanh(kind(_ROOT) * (x + kind(0.044715) * x * x * x)))


def _check(approximate: str) -> None:
    need(approximate in ("none", "tanh"), f"approximate must be 'none' or 'tanh', got {approximate!r}")


@gelu.form
def _(x: Any, approximate: Literal["none", "tanh"] = "none") -> Any:
    _check(approximate)
    piece = Pieces(x)
    if approximate == "none":
        inner = piece("Erf", piece("Mul", x, math.sqrt(0.5)))
    else:
        cube = piece("Mul", piece("Mul", x, x), x)
        inner = piece("Tanh", piece("Mul", piece("Add", x, piece("Mul", cube, 0.044715)), _ROOT))
    return piece("Mul", piece("Mul", x, 0.5), piece("Add", inner, 1))
