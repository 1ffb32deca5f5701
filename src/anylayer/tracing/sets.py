"""Sets of integers that depend on data: `set(labels)`, of which the values are those of np.unique."""

from __future__ import annotations

from collections.abc import Container, Iterator

import numpy as np

from anylayer import tracing
from anylayer.graph.intervals import Intervals
from anylayer.graph.place import refusal
from anylayer.network import Array
from anylayer.tracing.array import TracedArray, selected
from anylayer.tracing.grown import GrownList, TracedList, as_traced
from anylayer.tracing.number_lists import ListOfArray
from anylayer.tracing.python_numbers import PythonNumber, Scalar, as_arrays, kind_of, number

_MAX_ORDERED = 7
"""The largest integer for which every set of integers from 0 on is in ascending order: the smallest table of a set
in CPython has 8 places, and an integer below 8 has its own."""


class TracedSet(TracedList):
    """A set of integers. array: its elements in ascending order. element: int, or None for NumPy's integers.
    bounds: an interval that contains them.
    """

    __slots__ = ("array", "bounds", "element")
    STANDS_FOR = set
    WHY = (
        "a set of integers that depend on data can be measured, sorted and asked for an element: len(s), "
        "sorted(s), x in s; use np.unique(x) for anything else"
    )

    def __init__(self, values: TracedArray, element: object) -> None:
        self.array, self.element = as_traced(np.unique(values)), element
        self.bounds = Intervals(values._graph.producers).of(values._value)

    add = discard = update = union = intersection = difference = issubset = TracedList._refuse

    def numbers(self) -> Array:
        """Return an array with one number for each element."""
        return self.array

    def __len__(self) -> int:
        return len(self.array)

    def __bool__(self) -> bool:
        return bool(self.array.shape[0] > 0)

    def __contains__(self, x: object) -> bool:
        return as_arrays(x) in self.array

    def in_order(self) -> GrownList:
        """Return sorted(self)."""
        return GrownList([], self.array, element=self.element)

    def items(self) -> GrownList:
        """Return the elements in the order of the set. Raise TraceError if that is not certainly ascending."""
        low, high = self.bounds
        if low < 0 or high > _MAX_ORDERED:
            raise refusal(
                "the order of a set of integers depends on how they were added, unless they are certainly from 0 "
                f"to {_MAX_ORDERED}; loop over sorted(set(x)) or np.unique(x)"
            )
        return self.in_order()

    def __iter__(self) -> Iterator[Scalar]:
        self.items()
        return iter(self.array)


def set_of(x: Scalar) -> TracedSet | None:
    """Return set(x) if it depends on data, and None for anything else."""
    kind: object = None
    x = x if issubclass(type(x), TracedList) else selected(x)
    if issubclass(type(x), ListOfArray):
        x, kind = x.array, int
    elif type(x) is GrownList:
        x, kind = x.made(), x.element
    elif type(x) in (list, tuple) and any(type(v) in (TracedArray, PythonNumber) for v in x):
        kinds = {*map(kind_of, x)}
        x, kind = tracing.rules.creation.array(x), kinds.pop() if len(kinds) == 1 else bool
    if type(x) is not TracedArray or x._const() is not None:
        return None
    if x.ndim != 1:
        raise TypeError("unhashable type: 'numpy.ndarray'")
    if x.dtype.kind not in "iu" or kind not in (int, None):
        raise refusal("a set of other numbers than integers cannot be recorded; use np.unique(x)")
    return TracedSet(x, kind)


def contains(x: Scalar, items: Container[object], negated: bool) -> object:
    """Return `x in items`, as a bool that may depend on data."""
    array = items.array if type(items) is TracedSet else selected(items)
    if type(array) is not TracedArray or array._const() is not None:
        return (x in items) is not negated
    return tracing.joined_ifs.truth(number((array == as_arrays(x)).any(), bool), negated)
