"""Lists of the numbers of an array: those that x.tolist() returns, and those whose elements a loop replaces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from anylayer import tracing
from anylayer.graph.place import refusal
from anylayer.network import Array
from anylayer.tracing.array import TracedArray
from anylayer.tracing.grown import TracedList
from anylayer.tracing.python_numbers import Scalar
from anylayer.tracing.record import running_graph


def list_of(x: TracedArray) -> list[object] | ListOfArray:
    """Return x.tolist() of a traced array. Of a large one, the list records its numbers when they are read."""
    return ListOfArray(x) if x.size > _MAX_NUMBERS else [y.tolist() for y in x]


_MAX_NUMBERS = 64
"""The largest array whose elements are recorded one by one."""


class ListOfArray(TracedList):
    """The list that x.tolist() returns of a large array. Functions that take an array get all of it."""

    __slots__ = ("array",)
    WHY = (
        "a list of the elements of a large array can be read, measured and made an array: np.array(x), x[i], "
        "len(x); keep the array for anything else"
    )

    def __init__(self, array: TracedArray) -> None:
        self.array = array

    def made(self) -> Array:
        """Return the array in the dtype of Python's numbers."""
        kind = self.array.dtype.kind
        return self.array.copy() if kind == "b" else self.array.astype(np.float64 if kind == "f" else np.int64)

    def __getitem__(self, key: Scalar) -> Scalar:
        return self.array[key].tolist()

    def __iter__(self) -> Iterator[Scalar]:
        return (y.tolist() for y in self.array)

    def __len__(self) -> int:
        return len(self.array)


class NumberList(ListOfArray):
    """A list of numbers of one type, whose elements a loop on data replaces. `array` holds them."""

    __slots__ = ("kind",)
    WHY = (
        "a list whose elements a loop on data replaces can be read, measured and made an array: np.array(x), "
        "x[i], len(x); make it an array for anything else"
    )

    def __init__(self, numbers: Sequence[Scalar], kind: type) -> None:
        parts = [tracing.python_numbers.as_dtype_of(x, kind) for x in numbers]
        super().__init__(TracedArray(running_graph(), np.zeros(len(parts), parts[0].dtype)))
        self.array[:] = np.stack(parts)
        self.kind = kind

    def __getitem__(self, key: Scalar) -> Scalar:
        if isinstance(key, slice):
            self._refuse()
        return tracing.python_numbers.number(self.array[key], self.kind)

    def __setitem__(self, key: Scalar, value: Scalar) -> None:
        if isinstance(key, slice) or tracing.python_numbers.kind_of(value) is not self.kind:
            raise refusal(
                f"an element of a list of {self.kind.__name__} becomes something else in a loop on data; keep "
                "the type of its elements"
            )
        self.array[key] = value

    def __iter__(self) -> Iterator[Scalar]:
        return (self[i] for i in range(len(self)))
