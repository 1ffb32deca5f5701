"""Conversions of stored values: to float32, and of 4-bit integers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from anylayer.network import Array


def to_float32(values: ArrayLike) -> Array:
    """Return the values as float32, without a copy if they are float32 already.

    Values beyond its range become infinite.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray(values, np.float32)


def four_bit_integers(pairs: Array, count: int, *, signed: bool) -> Array:
    """Return the first `count` 4-bit integers of bytes (uint8), of which the lower half comes first."""
    halves = np.stack([pairs << 4, pairs], axis=-1)
    return ((halves.view(np.int8) if signed else halves) >> 4).reshape(-1)[:count]


def bfloat16_to_float32(bits: Array) -> Array:
    """Return bfloat16 values, given as uint16, as float32. The conversion is exact."""
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
