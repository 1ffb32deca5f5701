"""The error function."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._operator import elementwise

# Coefficients of the numerator and the denominator, highest power first: _NEAR of erf(x) / x as a function of x^2
# for |x| <= 0.46875, _FAR of exp(x^2) * erfc(x) as a function of |x| beyond.
_NEAR = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2,
     3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)  # fmt: skip
_FAR = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1,
     2.98635138197400131e2, 8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3,
     1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip


@elementwise("Erf")
def erf(x: Array) -> Array:
    """Return 2 / sqrt(pi) times the integral of exp(-t^2) from 0 to x (ONNX Erf-13).

    The shape and dtype are those of `x`. The NumPy meaning computes in float64, where it is exact to 1e-15 (W. J.
    Cody, Rational Chebyshev approximations for the error function, Mathematics of Computation 23, 1969).
    """
    wide = np.asarray(x, np.float64)
    square, size = wide * wide, np.minimum(np.abs(wide), 6)
    near = wide * np.polyval(_NEAR[0], square) / np.polyval(_NEAR[1], square)
    far = 1 - np.exp(-size * size) * np.polyval(_FAR[0], size) / np.polyval(_FAR[1], size)
    return np.where(size <= 0.46875, near, np.copysign(far, wide)).astype(x.dtype)
