"""The Gaussian error linear unit."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops.erf import erf
from anylayer.tracing import record

_ROOT = math.sqrt(2 / math.pi)


@operator
def gelu(x: Array, approximate: Literal["none", "tanh"] = "none") -> Array:
    """Return x * P(z < x) for a standard normal z: 0.5 * x * (1 + erf(x / sqrt(2))) (ONNX Gelu-20).

    With approximate="tanh": 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3))). The shape and dtype are
    those of `x`. Source: arXiv 1606.08415. Raises LayerError for another value of `approximate`.
    """
    _check(approximate)
    kind = x.dtype.type
    if approximate == "none":
        part = erf(x * kind(math.sqrt(0.5)))
    else:
        part = np.tanh(kind(_ROOT) * (x + kind(0.044715) * x * x * x))
    return kind(0.5) * x * (1 + part)


def _check(approximate: str) -> None:
    need(approximate in ("none", "tanh"), f"approximate must be 'none' or 'tanh', got {approximate!r}")


@gelu.form
def _(x: Array, approximate: Literal["none", "tanh"] = "none") -> Array:
    _check(approximate)
    return record("Gelu", [x], x.shape, x.dtype, approximate=approximate)
