"""Output arrays used again once their caller has dropped them.

Fresh memory of a megabyte costs a good part of a millisecond of page faults, more than many an operator takes.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from anylayer.network import Array, Shape

_KEPT = 3
_LARGEST = 1 << 26
_COUNTS = getattr(sys, "_is_gil_enabled", lambda: True)()  # without the lock, counts are no proof


class Slot:
    """A place for one array."""

    __slots__ = ("array",)

    def __init__(self, array: Array) -> None:
        self.array = array

    def references(self) -> int:
        """How many refer to the array."""
        return sys.getrefcount(self.array)


_UNUSED = Slot(np.empty(0)).references()


class Recycled:
    """Arrays of one shape and dtype, each given away again when nothing else refers to it or to a view of it.

    For one thread. At most three of at most 64 MB are kept.
    """

    def __init__(self, shape: Shape, dtype: np.dtype[Any]) -> None:
        self._shape, self._dtype = shape, dtype
        self._slots: list[Slot] = []

    def take(self) -> tuple[Array, Slot | None]:
        """An array with any values in it, and its slot, None where it is not kept."""
        for slot in self._slots:
            if slot.references() == _UNUSED:
                return slot.array, slot
        slot = Slot(np.empty(self._shape, self._dtype))
        if not _COUNTS or len(self._slots) == _KEPT or slot.array.nbytes > _LARGEST:
            return slot.array, None
        self._slots.append(slot)
        return slot.array, slot
