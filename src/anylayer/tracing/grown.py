"""Lists whose elements are one array: those that a loop fills, and those that x.tolist() returns."""

from __future__ import annotations

import ast
import ctypes
import re
import sys
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, NoReturn

import numpy as np

from anylayer import tracing
from anylayer.graph.place import is_users, place_of, refusal, user_frame
from anylayer.graph.symbolic import extreme, same_shape
from anylayer.network import Array
from anylayer.tracing.array import Selection, TracedArray, selected

_NUMBERS = (bool, int, float, np.generic)
"""The types of elements of a row, other than traced ones."""


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


class Growing(TracedList):
    """A list to which code appends elements that may depend on data, also in one side of an if.

    entries: rows (K, ...), and the mask (K,) of those that belong to the list, or None for all. A row is appended
    where the conditions hold of those sides of ifs that have begun after the list was made.
    `element` is the type of an element: int, float or bool, list or tuple of numbers, or None for arrays and
    NumPy's numbers.
    """

    __slots__ = ("element", "entries", "loops", "sides")

    def __init__(self, element: Any = None) -> None:
        self.element = element
        self.entries: list[tuple[Any, Any]] = []
        self.sides, self.loops = (len(running) for running in self._running())

    def _running(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """Return the sides of ifs and the bodies of loops that are recorded now."""
        run = tracing.decisions.current_run.get()
        return ([], []) if run is None else (run.sides, run.loops)

    def append(self, x: Any) -> None:
        numbers = tracing.python_numbers.as_arrays(x)
        parts = list(numbers) if type(x) in (list, tuple) else [numbers]
        if not parts or not all(type(v) is TracedArray or isinstance(v, _NUMBERS) for v in parts):
            raise refusal(
                f"{type(x).__name__} is appended to a list in a loop on data; append numbers, arrays, or lists "
                "and tuples of numbers"
            )
        row: Any = np.stack([v if type(v) is TracedArray else np.asarray(v) for v in parts])
        row = row if type(row) is TracedArray else TracedArray(tracing.running_graph(), row)
        run = tracing.decisions.current_run.get()
        if run is not None:
            bases = [v._base() for v in parts if type(v) is TracedArray and not v._scalar]
            run.appended.update((id(b), b) for b in bases)
        is_nested = type(x) in (list, tuple)
        self.add(
            row[None] if is_nested else row, None, type(x) if is_nested else tracing.python_numbers.kind_of(x)
        )

    def condition(self) -> Array | None:
        """Return the condition under which the code that runs now changes the list, or None for always."""
        result: Array | None = None
        for d in self._running()[0][self.sides :]:
            here: Array = TracedArray(tracing.running_graph(), d.condition)
            here = here if d.answer else ~here
            result = here if result is None else result & here
        return result

    def add(self, rows: Any, mask: Any, element: Any) -> None:
        """Append those of the rows for which the mask is true."""
        if len(self._running()[1]) != self.loops:
            raise refusal("a loop on data appends to a list of another function; return the elements instead")
        here = self.condition()
        if here is not None:
            mask = np.broadcast_to(here, rows.shape[:1]) if mask is None else mask & here
        first, before = (self.entries[0][0], self.element) if self.entries else (rows, element)
        if (rows.dtype, element) != (first.dtype, before) or not same_shape(rows.shape[1:], first.shape[1:]):
            raise refusal(
                "the elements that a loop appends to a list differ in type, dtype or shape; append elements of "
                "one kind, such as float(x) in each place"
            )
        self.element = element
        self.entries.append((rows, mask))

    def together(self) -> tuple[Any, Any]:
        """Return all rows, and their mask, or None for all."""
        if len(self.entries) == 1:
            return self.entries[0]
        rows = np.concatenate([rows for rows, _ in self.entries])
        if all(mask is None for _, mask in self.entries):
            return rows, None
        graph = tracing.running_graph()
        masks = [TracedArray(graph, np.ones((), bool)) if m is None else m for _, m in self.entries]
        return rows, np.concatenate([np.broadcast_to(m, r.shape[:1]) for (r, _), m in zip(self.entries, masks)])


class GrownList(Growing):
    """A list after a loop: some elements, then the rows."""

    __slots__ = ("array", "before")

    def __init__(self, before: Sequence[Any], rows: Any, mask: Any = None, element: Any = None) -> None:
        super().__init__()
        self.before = list(before)
        self.add(rows, mask, element)
        self.array: Any = None

    def append(self, x: Any) -> None:
        super().append(x)
        self.array = None

    def made(self) -> Any:
        if self.array is None:
            rows, mask = self.together()
            rows = rows if mask is None else selected(rows[mask])
            self.array = np.concatenate([np.stack(self.before), rows]) if self.before else rows
        return self.array

    def join(self, function: Any, axis: int = 0) -> Any:
        """Return what np.stack, np.vstack or np.concatenate make of the list. Other functions are refused."""
        x = self.made()
        if axis and function is np.stack:
            return np.moveaxis(x, 0, axis)
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
        if self.element in (list, tuple) and not isinstance(key, slice):
            self._refuse()
        if self.element is not None and self.before:
            self._refuse()
        x = self.made()[key]
        if isinstance(key, slice):
            return GrownList([], x, element=self.element)
        return x if self.element is None else tracing.python_numbers.number(x, self.element)

    def copy(self) -> GrownList:
        return GrownList(self.before, *self.together(), self.element)

    def extend(self, items: Any) -> None:
        if type(items) is not GrownList:
            for x in items:
                self.append(x)
            return
        entries = [*items.entries]
        for x in items.before:
            self.append(x)
        for rows, mask in entries:
            self.add(rows, mask, items.element)
        self.array = None

    def __iadd__(self, other: Any) -> GrownList:
        self.extend(other)
        return self

    def __add__(self, other: Any) -> GrownList:
        result = self.copy()
        result.extend(other)
        return result

    def __radd__(self, other: Any) -> Any:
        """Return `other + self`. After `items += self`, the variable of the list is another object."""
        frame = sys._getframe(1)
        opcode, text = tracing.causes.running_expression(frame) if frame is user_frame() else ("", "")
        if type(other) is not list or opcode != "BINARY_OP" or not text:
            return self._refuse()
        items: list[Any] = other
        if "+=" not in text:
            return self._after(items)
        name = text.partition("+=")[0].strip()
        if name not in frame.f_code.co_varnames or frame.f_locals.get(name) is not other:
            self._refuse()
        _need_one_name(frame, sys.getrefcount(other) - 1 - _references()[0])
        return self._after(items, True)

    def __iter__(self) -> Iterator[Any]:
        """Extend a local list: in `items.extend(self)`, the variable becomes another object."""
        frame = sys._getframe(1)
        name = self._extended_list(frame)
        if name not in frame.f_code.co_varnames or type(frame.f_locals.get(name)) is not list:
            self._refuse()
        items = frame.f_locals[name]
        _need_one_name(frame, sys.getrefcount(items) - _references()[1])
        set_local(frame, name, self._after(items, True))
        return iter(())

    def _extended_list(self, frame: FrameType) -> str:
        """Return the variable `items` where a frame of the user's code runs `items.extend(self)`, or ""."""
        text = tracing.causes.running_expression(frame)[1] if frame is user_frame() else ""
        match = re.fullmatch(r"(\w+)\.extend\((.+)\)", text, re.DOTALL)
        if match is None:
            return ""
        call = ast.parse(f"f({match[2]})", mode="eval").body
        args = call.args if isinstance(call, ast.Call) else []
        direct = [type(x) is ast.BinOp or frame.f_locals.get(getattr(x, "id", "")) is self for x in args]
        return match[1] if direct == [True] else ""  # not of an iterator that reads this list

    def _after(self, items: list[Any], replaced: bool = False) -> GrownList:
        """Return a list with all elements after those of a plain list, which it replaces or not."""
        rows, mask = self.together()
        result = GrownList([*items, *self.before], rows, mask, self.element)
        if replaced:
            items[:] = [Unreadable("a list, to which elements have been added, is read under another name")]
        return result

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(
            "a list that a loop has filled has a length that is known only when the network runs; it can be "
            "indexed, measured and made an array: np.array(x), x[:n], y[x], len(x)"
        )

    __mul__ = __contains__ = __eq__ = __lt__ = __setitem__ = _refuse
    __delitem__ = __reversed__ = __array__ = __repr__ = __format__ = _refuse
    insert = pop = remove = sort = reverse = index = count = clear = _refuse

    def __len__(self) -> int:
        return 0 if self._extended_list(sys._getframe(1)) else len(self.made())  # list.extend asks for it

    def __bool__(self) -> bool:
        return bool(self.made().shape[0] > 0)


def set_local(frame: FrameType, name: str, value: Any) -> None:
    """Give a local variable of a frame another value."""
    variables = frame.f_locals
    variables[name] = value
    ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


def _need_one_name(frame: FrameType, others: int) -> None:
    """Refuse to replace a list to which other names refer."""
    if others:
        raise refusal(
            "a number of elements that depends on data is added to a list that has other names, or that a loop "
            "or another function reads; make a list in the function that adds to it",
            place=place_of(frame),
        )


def _references() -> list[int]:
    """Return the references to a list that only a local variable holds, as GrownList counts them: after `items +=
    self`, and in `items.extend(self)`. A debugger or a profiler adds some.
    """
    numbers: list[int] = []

    class Probe:
        def __radd__(self, other: Any) -> Any:
            numbers.append(sys.getrefcount(other) if sys._getframe(1).f_locals else 0)
            return other

        def __iter__(self) -> Iterator[Any]:
            items = sys._getframe(1).f_locals["items"]
            numbers.append(sys.getrefcount(items))
            return iter(())

    items: Any = []
    items += Probe()
    items.extend(Probe())
    return numbers


def repeated_list(items: list[Any], n: Any) -> GrownList:
    """Return `items * n` for a size that depends on data."""
    kinds = [tracing.python_numbers.kind_of(x) for x in items]
    is_numpy = all(issubclass(type(x), np.generic) or (type(x) is TracedArray and x._scalar) for x in items)
    if not items or len({*kinds}) > 1 or (kinds[0] is None and not is_numpy):
        raise refusal(
            "a number of selected elements, which is known only when the network runs, can repeat a list of "
            "numbers of one type only; use np.full(n, x)"
        )
    parts = [x if kinds[0] is None else tracing.python_numbers.as_dtype_of(x, kinds[0]) for x in items]
    row: Any = np.stack(parts)
    row = row if type(row) is TracedArray else TracedArray(tracing.running_graph(), row)
    return GrownList([], np.broadcast_to(row, (extreme("max", n, 0), len(parts))).reshape(-1), element=kinds[0])


class LoopList(Growing):
    """A list while the body of a loop is recorded, which only appends to it."""

    __slots__ = ()

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(
            "a list is read in the loop on data that appends to it; keep its length or its last element in a "
            "variable of its own"
        )

    made = __add__ = __radd__ = __iadd__ = __mul__ = __iter__ = __contains__ = __eq__ = __lt__ = _refuse
    __setitem__ = __getitem__ = __delitem__ = __len__ = __bool__ = __reversed__ = __array__ = __repr__ = _refuse
    __format__ = extend = insert = pop = remove = sort = reverse = index = count = clear = copy = _refuse


class Unreadable:
    """An object in place of a value that a loop leaves, which is not recorded. Every use of it is refused."""

    def __init__(self, reason: str) -> None:
        self.reason = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise refusal(self.reason)

    def _refuse(self, *args: object) -> NoReturn:
        raise refusal(self.reason)

    __bool__ = __len__ = __iter__ = __getitem__ = __array__ = __eq__ = __ne__ = __repr__ = _refuse

    @property  # type: ignore[misc]  # which isinstance only reads
    def __class__(self) -> type:
        if is_users(sys._getframe(1)):
            self._refuse()
        return Unreadable

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
        return self.array.copy() if kind == "b" else self.array.astype(np.float64 if kind == "f" else np.int64)

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


class NumberList(ListOfArray):
    """A list of numbers of one type, whose elements a loop on data replaces. `array` holds them."""

    __slots__ = ("kind",)

    def __init__(self, numbers: Sequence[Any], kind: type) -> None:
        parts = [tracing.python_numbers.as_dtype_of(x, kind) for x in numbers]
        self.array = TracedArray(tracing.running_graph(), np.zeros(len(parts), parts[0].dtype))
        self.array[:] = np.stack(parts)
        self.kind = kind

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            self._refuse()
        return tracing.python_numbers.number(self.array[key], self.kind)

    def __setitem__(self, key: Any, value: Any) -> None:  # type: ignore[override]  # refused in the base class
        if isinstance(key, slice) or tracing.python_numbers.kind_of(value) is not self.kind:
            raise refusal(
                f"an element of a list of {self.kind.__name__} becomes something else in a loop on data; keep "
                "the type of its elements"
            )
        self.array[key] = value

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise refusal(
            "a list whose elements a loop on data replaces can be read, measured and made an array: np.array(x), "
            "x[i], len(x); make it an array for anything else"
        )

    __add__ = __radd__ = __iadd__ = __mul__ = __contains__ = __eq__ = __lt__ = __delitem__ = _refuse
    __bool__ = __reversed__ = __array__ = __repr__ = __format__ = _refuse
    append = extend = insert = pop = remove = sort = reverse = index = count = clear = copy = _refuse
