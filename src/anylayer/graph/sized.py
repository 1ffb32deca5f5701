"""Constants whose elements are computed from symbolic sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.graph.expressions import Expression
from anylayer.graph.reals import Real
from anylayer.graph.symbolic import Size, SizeReal, is_symbolic
from anylayer.network import Array

Element = int | float | Expression | Real


class SizedArray(np.ndarray[Any, Any]):
    """A constant whose elements are computed from symbolic sizes. Its values are those at the traced sizes.

    `elements` has a number, an Expression or a Real for each element, in C order. What NumPy computes from a
    SizedArray has no elements: its values are the same at every size.
    """

    elements: tuple[Element, ...] | None = None


def sized_array(values: Sequence[Any], dtype: Any, shape: Sequence[int] | None = None) -> Array:
    """Return numbers, some of them symbolic, as an array of this dtype: a SizedArray if one is symbolic."""
    plain_array = np.array([v.value if is_symbolic(v) else v for v in values])
    array = plain_array.astype(dtype).reshape(shape if shape is not None else -1)
    if not any(map(is_symbolic, values)):
        return array
    sized = array.view(SizedArray)
    sized.elements = tuple(
        v.expression
        if type(v) is Size
        else v.real_expression
        if isinstance(v, SizeReal)
        else v.item()
        if isinstance(v, np.generic)
        else v
        for v in values
    )
    return sized


def copied(array: Array) -> Array:
    """Return a copy of an array. The copy of a SizedArray keeps its `elements`."""
    copy = array.copy()
    if isinstance(array, SizedArray) and isinstance(copy, SizedArray):
        copy.elements = array.elements
    return copy


def equal_constants(
    a: Array | None, b: Array | None, equal: Callable[[Sequence[Any], Sequence[Any]], bool]
) -> bool:
    """Return whether two constants are equal. equal: compares their elements if some are computed from sizes."""
    if a is None or b is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    elements = [elements_of(x) for x in (a, b)]
    if elements == [None, None]:
        return a.tobytes() == b.tobytes()
    first, second = (x.reshape(-1).tolist() if e is None else e for x, e in zip((a, b), elements))
    return equal(first, second)


def elements_of(x: object) -> tuple[Element, ...] | None:
    """Return the elements of a SizedArray, or None for any other array."""
    return x.elements if type(x) is SizedArray else None
