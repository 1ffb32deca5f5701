"""Reuse output arrays after the caller has dropped them.

The page faults of a new array of 1 MB take several hundred microseconds, which is longer than many operators.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from anylayer.network import Array, DType, Shape

_MAX_ARRAYS = 3  # per pool
_MAX_BYTES = 1 << 26  # of an array that is kept
_COUNTS_ARE_EXACT = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether reference counts say that an array is unused. Without the global interpreter lock they do not."""


class ArrayHolder:
    """A new array, and the engine's tensor over its memory, which `wrap` returns and which may refer to the array.

    `kept` says whether a pool keeps the array, `unused` how many references there are if no caller has one.
    """

    __slots__ = ("array", "kept", "tensor", "unused")

    def __init__(self, shape: Shape, dtype: DType, wrap: Callable[[Array], Any]) -> None:
        self.array: Array = np.empty(shape, dtype)
        self.tensor = wrap(self.array)
        self.kept = False
        self.unused = sys.getrefcount(self.array)


class Recycled:
    """A pool of arrays of one shape and dtype. An array is reused when nothing else refers to it or to a view of
    it.

    It serves one thread, and keeps at most three arrays of at most 64 MiB each.
    """

    def __init__(self, shape: Shape, dtype: DType, wrap: Callable[[Array], Any] = lambda array: None) -> None:
        self._new = partial(ArrayHolder, shape, dtype, wrap)
        self._kept: list[ArrayHolder] = []
        self._most = _MAX_ARRAYS if can_recycle(shape, dtype) else 0

    def take(self) -> ArrayHolder:
        """Return the holder of an array with undefined values."""
        for holder in self._kept:
            if sys.getrefcount(holder.array) == holder.unused:
                return holder
        holder = self._new()
        if len(self._kept) < self._most:
            holder.kept = True
            self._kept.append(holder)
        return holder


def can_recycle(shape: Shape, dtype: DType) -> bool:
    """Return whether arrays of this shape and dtype are kept for reuse."""
    return _COUNTS_ARE_EXACT and math.prod(shape) * dtype.itemsize <= _MAX_BYTES
