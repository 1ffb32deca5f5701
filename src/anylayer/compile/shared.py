"""Copy the outputs of a user's class that something else refers to: its next call may write to them."""

from __future__ import annotations

import sys

import numpy as np

from anylayer.network import Array


def _reference_counts(arrays: list[Array]) -> list[int]:
    """Return the reference count of each array, or of its base if it is a view."""
    return [sys.getrefcount(o if o.base is None else o.base) for o in arrays]


_COUNT_ALONE = _reference_counts([np.empty(1)])[0]
_COUNT_OF_VIEW = _reference_counts([np.empty(2)[:1]])[0]


def unshared(arrays: list[Array]) -> list[Array]:
    """Replace in a list each array that something outside the list refers to by a copy; return the list."""
    for i, count in enumerate(_reference_counts(arrays)):
        if count > (_COUNT_ALONE if arrays[i].base is None else _COUNT_OF_VIEW):
            arrays[i] = arrays[i].copy()
    return arrays
