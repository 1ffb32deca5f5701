"""Whether an array has other holders: a class may keep what it gives, and write to it when it is called again."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from anylayer.network import Array


def _holders(arrays: list[Any]) -> list[int]:
    """How many references there are to each array, or to the one it is a view of."""
    return [sys.getrefcount(o if o.base is None else o.base) for o in arrays]


_ALONE = _holders([np.empty(1)])[0]
_VIEWED = _holders([np.empty(2)[:1]])[0]


def unshared(arrays: list[Array]) -> list[Array]:
    """The arrays of a list that nobody else has, with copies of those that somebody else holds too."""
    for i, count in enumerate(_holders(arrays)):
        if count > (_ALONE if arrays[i].base is None else _VIEWED):
            arrays[i] = arrays[i].copy()
    return arrays
