"""Divisions by constants as products with a reciprocal in two floats."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from anylayer.network import Array

_MAX_DIVISORS = 64
"""The largest number of different divisors that are tested."""


def reciprocals(divisors: Array) -> tuple[Array, Array] | None:
    """Return floats (high, low), of which `high + low` is 1 / c for each divisor c, if x * high + x * low, with
    both roundings to float32, is x / c for each x whose products are normal numbers. None for other divisors.
    """
    different = np.unique(divisors)
    if (
        divisors.dtype != np.float32
        or len(different) > _MAX_DIVISORS
        or not all(map(_is_exact, different.tolist()))
    ):
        return None
    return _halves(divisors)


def _halves(divisors: Array) -> tuple[Array, Array]:
    """Return the two floats of each reciprocal, of equal signs, so that a quotient of 0 has the right sign."""
    exact = 1 / divisors.astype(np.float64)
    nearest = exact.astype(np.float32)
    high = np.where(abs(nearest) > abs(exact), np.nextafter(nearest, np.float32(0)), nearest)
    return high, np.copysign(exact - high, high).astype(np.float32)


@lru_cache(1024)
def _is_exact(divisor: float) -> bool:
    """Return whether the products round to the quotient for each x.

    Their error is less than 3 * 2**-48 of the quotient. So only an x matters whose quotient is that close to a
    number in the middle between two floats: x * 2**k = middle * c + rest, for integers of 24 and 25 bits and
    |rest| < 6.
    """
    if not 2.0**-60 < abs(divisor) < 2.0**60:
        return False
    c = int(abs(np.frexp(divisor)[0]) * 2**24)
    odd, shift = c, 0
    while odd % 2 == 0:
        odd, shift = odd // 2, shift + 1
    numerators: list[int] = []
    for k in (24, 25):
        for rest in (-5, -4, -3, -2, -1, 1, 2, 3, 4, 5):
            if rest % 2**shift == 0 and shift < k:
                size = 2 ** (k - shift)
                first = -(rest >> shift) * pow(odd, -1, size) % size
                numerators += [(middle * c + rest) >> k for middle in range(first, 2**25, size)]
    x = np.array(numerators or [1], np.float32)
    high, low = _halves(np.array(divisor, np.float32))
    products = (x.astype(np.float64) * high + x * low).astype(np.float32)
    return bool((products == x / np.float32(divisor)).all())
