"""The remainder of floats, which OpenVINO (2026.4) computes as x - y * trunc(x / y).

x / y rounds up to an integer where x is a little less than a multiple of y: 1 % 0.1 comes out as 0 in place of
0.1, and 1 // 0.1 as 10 in place of 9.
"""

from __future__ import annotations

import numpy as np

from anylayer.corrections.corrector import Corrector
from anylayer.graph import Op, Value
from anylayer.network import Array
from anylayer.optimize.rules import rule
from anylayer.tracing import record

_HALF = 4096
"""2**12: half of the 24 bits of a float32."""


@rule("Mod", kind="must", targets=("openvino",))
def _remainder(new: Corrector, o: Op) -> list[Value] | None:
    """Compute the remainder of floats exactly, for quotients below 2**24."""
    if not o["fmod"] or o.outputs[0].dtype.kind != "f":
        return None
    return new.compute(o, _exact)


def _exact(x: Array, y: Array) -> Array:
    """Return the remainder of x / y with the sign of x.

    The product of the quotient and y is subtracted in four parts of 12 bits, each of which is exact, with or
    without a fused multiply-add (Dekker, A floating-point technique for extending the available precision, 1971).
    The quotient may be too large or too small by 1, which is corrected at the end.
    """
    kind = x.dtype.type
    a, b = np.maximum(x, -x), np.maximum(y, -y)  # not Abs: see Corrector.magnitude
    quotient = np.floor(a / b)
    upper = np.floor(quotient / kind(_HALF)) * kind(_HALF)
    lower = quotient - upper
    high, low = split(b)
    rest = a - upper * high - upper * low - lower * high - lower * low
    rest = np.where(rest < 0, rest + b, rest)
    rest = np.where(rest >= b, rest - b, rest)
    rest = np.where(a < b, a, rest)
    return np.where(rest == 0, x * kind(0), np.where(x < 0, -rest, rest))


def split(b: Array) -> tuple[Array, Array]:
    """Return two arrays of 12 bits whose sum is b (Veltkamp's splitting)."""
    if isinstance(b, (np.ndarray, np.generic)):
        narrow = b.astype(np.float32)  # OpenVINO computes float64 in float32
        wide = np.float32(_HALF + 1) * narrow
        high = wide - (wide - narrow)
        return high.astype(b.dtype), (narrow - high).astype(b.dtype)
    wide = apart(b * b.dtype.type(_HALF + 1))
    high = apart(wide - apart(wide - b))
    return high, apart(b - high)


def apart(x: Array) -> Array:
    """Keep OpenVINO from combining an operator with the next: a maximum with minus infinity."""
    return record("Max", [np.array(-np.inf, x.dtype), x], x.shape, x.dtype)
