"""Constant arrays that are functions of their indices."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.graph.expressions import Expression, constant
from anylayer.loops.ir import Scalar
from anylayer.loops.scalars import Scalars
from anylayer.network import Array

_EXACT = 2**24
"""Integers below this are exact in every dtype of floats."""


def of_indices(scalars: Scalars, array: Array, places: Sequence[Expression]) -> Scalar | None:
    """Return an element of an array as a function of its indices, or None where it has to be read.

    array: of an axis for each of the `places`, along each of which its elements differ.
    """
    return (
        _affine(scalars, array, places) or _quotient(scalars, array, places) or _comparison(scalars, array, places)
    )


def _affine(scalars: Scalars, array: Array, places: Sequence[Expression]) -> Scalar | None:
    """Return an element of an array of integers that is a sum of multiples of its indices, else None."""
    if array.dtype.kind == "b" or not (np.abs(array) < _EXACT).all() or (array != np.rint(array)).any():
        return None
    start = int(array.flat[0])
    total, computed = constant(start), np.full(array.shape, start, np.int64)
    for axis, place in enumerate(places):
        step = int(array[tuple(int(a == axis) for a in range(array.ndim))]) - start
        total = total + constant(step) * place
        computed = computed + step * np.arange(array.shape[axis]).reshape(
            [-1 if a == axis else 1 for a in range(array.ndim)]
        )
    return scalars.cast(scalars.index(total), array.dtype) if (computed == array).all() else None


def _quotient(scalars: Scalars, array: Array, places: Sequence[Expression]) -> Scalar | None:
    """Return an element of an array such as 0, 0, 1, 1, 2, 2 as a quotient of its index, else None."""
    times = int((array == array.flat[0]).sum())
    if len(places) > 1 or array.dtype.kind not in "iu" or times < 2:
        return None
    if (array != np.arange(array.size) // times).any():
        return None
    return scalars.cast(scalars.index(scalars.space.quotient(places[0], constant(times))), array.dtype)


def _comparison(scalars: Scalars, array: Array, places: Sequence[Expression]) -> Scalar | None:
    """Return an element of booleans that differ on two sides of a diagonal as a comparison, else None."""
    if array.dtype.kind != "b" or len(places) != 2:
        return None
    above = array if array[0, -1] else ~array
    k = 1 - int(above[:, 0].argmin()) if above[0, 0] else int(above[0].argmax())
    if (above != np.triu(np.ones_like(above), k)).any():
        return None
    sides = scalars.index(places[1] - places[0]), scalars.index(constant(k))
    return scalars.truth("ge" if above is array else "lt", *sides)
