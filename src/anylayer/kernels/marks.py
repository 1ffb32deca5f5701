"""Fill memory with marker values that show which elements a kernel has not written."""

from __future__ import annotations

import math

import numpy as np

from anylayer.network import Array, TensorType

_NANS = {2: 0x7E5A, 4: 0x7FE5A11A, 8: 0x7FF8A11AA11AA11A}
"""Quiet NaNs with a payload that no computation produces, by the size of the dtype in bytes."""
_BYTES = (0xA5, 0x5A)
_ZONE = 4096
"""The size of the memory before and after a guarded array, in bytes."""
_GUARD = 0xC3
"""The value of each byte of that memory."""


def _marker(array: Array, turn: int) -> int:
    """Return the bits of the marker value for an array."""
    if array.dtype.kind == "f":
        return _NANS[array.itemsize]
    return int.from_bytes([_BYTES[turn]] * array.itemsize)


def mark(array: Array, turn: int) -> None:
    """Fill an array with the marker, which differs in turns 0 and 1 for integers: results may equal one."""
    array.view(f"u{array.itemsize}").fill(_marker(array, turn))


def marks(array: Array, turn: int) -> Array:
    """Return a mask of the elements that still have the value that `mark` filled in."""
    return np.asarray(array.view(f"u{array.itemsize}") == _marker(array, turn))


class Guarded:
    """An array of a shape and dtype in memory of its own, between two zones that a layer must not write to."""

    def __init__(self, kind: TensorType) -> None:
        size = math.prod(kind.shape) * kind.dtype.itemsize
        self._memory = np.full(size + 2 * _ZONE, _GUARD, np.uint8)
        self._after = _ZONE + size
        self.array: Array = self._memory[_ZONE : self._after].view(kind.dtype).reshape(kind.shape)

    def overwritten(self) -> str:
        """Return where the layer has written beside the array: "before", "after", or "" if nowhere."""
        zones = {"before": self._memory[:_ZONE], "after": self._memory[self._after :]}
        return next((where for where, zone in zones.items() if (zone != _GUARD).any()), "")
