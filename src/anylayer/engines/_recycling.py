"""Reuse output arrays after the caller has dropped them.

The page faults of a new array of 1 MB take several hundred microseconds, which is longer than many operators.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from anylayer.network import Array, Shape

_MAX_ARRAYS = 3  # per pool
_MAX_BYTES = 1 << 26  # of an array that is kept
_COUNTS_ARE_EXACT = getattr(sys, "_is_gil_enabled", lambda: True)()
"""Whether reference counts say that an array is unused. Without the global interpreter lock they do not."""


class ArrayHolder:
    """A holder of one array."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def references(self) -> int:
        """Return the number of references to the array."""
        return sys.getrefcount(self.array)


_UNUSED = ArrayHolder(np.empty(0)).references()


class Recycled:
    """A pool of arrays of one shape and dtype. An array is reused when nothing else refers to it or to a view of
    it.

    It serves one thread, and keeps at most three arrays of at most 64 MiB each.
    """

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self._shape, self._dtype = shape, dtype
        self._slots: list[ArrayHolder] = []

    def take(self) -> tuple[Array, ArrayHolder | None]:
        """Return an array with undefined values, and its holder, or None if the array is not kept for reuse."""
        for slot in self._slots:
            if slot.references() == _UNUSED:
                return slot.array, slot
        slot = ArrayHolder(np.empty(self._shape, self._dtype))
        if not _COUNTS_ARE_EXACT or len(self._slots) == _MAX_ARRAYS or slot.array.nbytes > _MAX_BYTES:
            return slot.array, None
        self._slots.append(slot)
        return slot.array, slot
