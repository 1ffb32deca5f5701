"""Lists whose elements are one array: those that a loop fills, and those that x.tolist() returns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from anylayer.graph.place import refusal
from anylayer.tracing.array import Selection


class TracedList(Selection):
    """A list whose elements are one array."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # unhashable, as lists are

    @property
    def __class__(self) -> type:
        return list

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError("the __class__ of a traced list cannot be set")


class GrownList(TracedList):
    """A list after a loop: some elements, then one for each row of an array whose size depends on data."""

    __slots__ = ("array", "before", "rows")

    def __init__(self, before: Sequence[Any], rows: Any) -> None:
        self.before, self.rows = list(before), rows
        self.array: Any = None

    def made(self) -> Any:
        if self.array is None:
            self.array = np.concatenate([np.stack(self.before), self.rows]) if self.before else self.rows
        return self.array

    def join(self, function: Any, axis: int = 0) -> Any:
        """Return what np.stack, np.vstack or np.concatenate make of the list. Other functions are refused."""
        x = self.made()
        if axis:
            self._refuse()
        if function is np.stack or (function is np.vstack and x.ndim == 2):
            return x
        if function is np.vstack and x.ndim == 1:
            return x[:, None]
        if x.ndim < 2 or function not in (np.vstack, np.concatenate):
            self._refuse()
        return x[:, 0] if x.shape[1] == 1 else x.reshape(-1, *x.shape[2:])

    def __getitem__(self, key: Any) -> Any:
        element = self.made()[key]
        return GrownList([], element) if isinstance(key, slice) else element

    def copy(self) -> GrownList:
        return GrownList(self.before, self.rows)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(
            "a list that a loop has filled has a length that is known only when the network runs; it can be "
            "indexed, measured and made an array: np.array(x), x[:n], y[x], len(x)"
        )

    __add__ = __radd__ = __iadd__ = __mul__ = __iter__ = __contains__ = __eq__ = __lt__ = __setitem__ = _refuse
    __delitem__ = __reversed__ = __array__ = __repr__ = __format__ = _refuse
    append = extend = insert = pop = remove = sort = reverse = index = count = clear = _refuse

    def __len__(self) -> int:
        return len(self.made())

    def __bool__(self) -> bool:
        return bool(self.made().shape[0] > 0)


class Unreadable:
    """An object in place of a value that a loop leaves, which is not recorded. Every use of it is refused."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise refusal(self.reason)

    def _refuse(self, *args: object) -> NoReturn:
        raise refusal(self.reason)

    __bool__ = __len__ = __iter__ = __getitem__ = __array__ = __eq__ = __ne__ = __repr__ = _refuse
    __hash__ = None  # type: ignore[assignment]  # unhashable, as == is refused


def list_of(x: Any) -> Any:
    """Return x.tolist() of a traced array. Of a large one, the list records its numbers when they are read."""
    return ListOfArray(x) if x.size > _MAX_NUMBERS else [y.tolist() for y in x]


_MAX_NUMBERS = 64
"""The largest array whose elements are recorded one by one."""


class ListOfArray(TracedList):
    """The list that x.tolist() returns of a large array. Functions that take an array get all of it."""

    __slots__ = ("array",)

    def __init__(self, array: Any) -> None:
        self.array = array

    def made(self) -> Any:
        """Return the array in the dtype of Python's numbers."""
        kind = self.array.dtype.kind
        return self.array if kind == "b" else self.array.astype(np.float64 if kind == "f" else np.int64)

    def __getitem__(self, key: Any) -> Any:
        return self.array[key].tolist()

    def __iter__(self) -> Iterator[Any]:
        return (y.tolist() for y in self.array)

    def __len__(self) -> int:
        return len(self.array)

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(
            "a list of the elements of a large array can be read, measured and made an array: np.array(x), x[i], "
            "len(x); keep the array for anything else"
        )

    __add__ = __radd__ = __iadd__ = __mul__ = __contains__ = __eq__ = __lt__ = __setitem__ = _refuse
    __delitem__ = __bool__ = __reversed__ = __array__ = __repr__ = __format__ = _refuse
    append = extend = insert = pop = remove = sort = reverse = index = count = clear = copy = _refuse
