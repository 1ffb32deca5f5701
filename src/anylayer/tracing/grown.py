"""Lists whose elements are one array: those that a loop fills, and those that x.tolist() returns."""

from __future__ import annotations

import ast
import ctypes
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from anylayer import tracing
from anylayer.graph.place import JoinError, is_users, place_of, refusal, user_frame
from anylayer.graph.symbolic import depends_on_data, extreme, same_shape
from anylayer.network import Array, Function
from anylayer.tracing.array import Selection, TracedArray, selected
from anylayer.tracing.record import running_graph, value_of

if TYPE_CHECKING:
    from anylayer.tracing.decisions import Decision
    from anylayer.tracing.objects import Heap

_NUMBERS = (bool, int, float, np.generic)
"""The types of elements of a row, other than traced ones."""
Rows = tuple[Sequence[Array], Array | None]
"""Rows (K, ...), and the mask (K,) of those that belong to a list, or None for all. Objects have several arrays of
rows: see objects."""
HEAP, INDEX = "_anylayer_heap", "_anylayer_index"
"""The names of what a reference to an object in a list has: see objects."""


def heap_of(x: object) -> Heap | None:
    """Return the heap of a reference, and None for anything else."""
    heap: Heap | None = vars(type(x)).get(HEAP)
    return heap


def index_of(x: object) -> Array:
    """Return the position of the object to which a reference refers."""
    index: Array = object.__getattribute__(x, INDEX)
    return index


class TracedList(Selection):
    """A list whose elements are one array, or another type that it STANDS_FOR. Whatever its class does not define
    is refused, for the reason WHY.
    """

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # unhashable, as lists are
    WHY = ""
    STANDS_FOR: type = list

    @property
    def __class__(self) -> type:
        return self.STANDS_FOR

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError(f"the __class__ of a traced {self.STANDS_FOR.__name__} cannot be set")

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise refusal(self.WHY)

    made = __add__ = __radd__ = __iadd__ = __mul__ = __contains__ = __eq__ = __lt__ = __getitem__ = _refuse
    __setitem__ = __delitem__ = __iter__ = __len__ = __bool__ = __reversed__ = __array__ = __repr__ = _refuse
    __format__ = append = extend = insert = pop = remove = sort = reverse = index = count = clear = copy = _refuse


class Growing(TracedList):
    """A list to which code appends elements that may depend on data, also in one side of an if.

    A row is appended where the conditions hold of those sides of ifs that have begun after the list was made.
    `element` is the type of an element: int, float or bool, list or tuple of numbers, None for arrays and NumPy's
    numbers, TracedArray for arrays whose first size depends on data, the heap of references to objects, or the
    form of objects.
    """

    __slots__ = ("element", "entries", "loops", "sides")

    def __init__(self) -> None:
        self.element: object = None
        self.entries: list[Rows] = []
        self.sides, self.loops = (len(running) for running in self._running())

    def _running(self) -> tuple[Sequence[Decision], Sequence[object]]:
        """Return the sides of ifs and the bodies of loops that are recorded now."""
        run = tracing.decisions.current_run.get()
        return ([], []) if run is None else (run.sides, run.loops)

    def append(self, x: object) -> None:
        heap = heap_of(x)
        if heap is not None:
            self.add([_row([index_of(x)])], None, heap)
            return
        form = tracing.objects.form_of(x)
        if form is not None:
            tracing.objects.note_recorded(x, *form)
            self.add([_row([a]) for a in form[1]], None, form[0])
            return
        parts = tracing.python_numbers.as_arrays(x)
        is_nested = type(x) in (list, tuple)
        parts = list(parts) if is_nested else [parts]
        if not parts or not all(type(v) is TracedArray or isinstance(v, _NUMBERS) for v in parts):
            raise refusal(
                f"{type(x).__name__} is appended to a list in a loop on data; append numbers, arrays, lists and "
                "tuples of numbers, or objects with such attributes"
            )
        self._note(parts)
        row = _row(parts)
        kind = type(x) if is_nested else tracing.python_numbers.kind_of(x)
        self.add([row[None] if is_nested else row], None, kind)

    def _note(self, parts: Sequence[object]) -> None:
        """Note that arrays are in the list, so that later writes to them are refused."""
        run = tracing.decisions.current_run.get()
        bases = [v._base() for v in parts if type(v) is TracedArray and not v._scalar]
        if run is not None:
            run.appended.update((id(b), b) for b in bases)

    def condition(self) -> Array | None:
        """Return the condition under which the code that runs now changes the list, or None for always."""
        result: Array | None = None
        for d in self._running()[0][self.sides :]:
            here: Array = TracedArray(running_graph(), d.condition)
            here = here if d.answer else ~here
            result = here if result is None else result & here
        return result

    def add(self, rows: Sequence[Array], mask: Array | None, element: object) -> None:
        """Append those of the rows for which the mask is true."""
        if len(self._running()[1]) != self.loops:
            raise refusal("a loop on data appends to a list of another function; return the elements instead")
        here = self.condition()
        if here is not None:
            mask = np.broadcast_to(here, rows[0].shape[:1]) if mask is None else mask & here
        first, before = (self.entries[0][0], self.element) if self.entries else (rows, element)
        is_same = all(x.dtype == y.dtype and same_shape(x.shape[1:], y.shape[1:]) for x, y in zip(rows, first))
        if is_same and {element, before} in ({None, int}, {None, float}):  # numbers of Python and of NumPy
            element = before = self.element = None
        if element != before or not is_same:
            raise refusal(
                "the elements that code on data appends to a list differ in type, dtype or shape; append elements "
                "of one kind, such as float(x) in each place"
            )
        self.element = element
        self.entries.append((rows, mask))

    def together(self) -> Rows:
        """Return all rows, and their mask, or None for all."""
        if len(self.entries) == 1:
            return self.entries[0]
        rows = [np.concatenate(parts) for parts in zip(*(rows for rows, _ in self.entries))]
        if all(mask is None for _, mask in self.entries):
            return rows, None
        masks = [as_traced(np.ones((), bool)) if m is None else m for _, m in self.entries]
        return rows, np.concatenate([np.broadcast_to(m, r[0].shape[:1]) for (r, _), m in zip(self.entries, masks)])


def as_traced(x: Array) -> TracedArray:
    """Return an array as a traced one."""
    return TracedArray(running_graph(), value_of(x))


def _where_true(rows: Array, mask: Array) -> Array:
    result: Array = selected(rows[mask])
    return result


def _row(numbers: Sequence[Any]) -> TracedArray:
    """Return numbers or arrays, stacked."""
    return as_traced(np.stack([v if type(v) is TracedArray else np.asarray(v) for v in numbers]))


class GrownList(Growing):
    """A list after a loop, or an `if`: some elements, then the rows.

    present: where the elements are arrays whose first size depends on data, the condition under which each of them
    is in the list, or None for always. The rows are then those of all these arrays.
    """

    __slots__ = ("array", "before", "present")
    WHY = (
        "a list that a loop has filled has a length that is known only when the network runs; it can be indexed, "
        "measured and made an array: np.array(x), x[:n], y[x], len(x)"
    )

    def __init__(
        self,
        before: Sequence[object],
        rows: Array | None = None,
        mask: Array | None = None,
        element: object = None,
    ) -> None:
        super().__init__()
        self.before: list[Any] = list(before)
        self.present: list[Array | None] = []
        self.array: Array | None = None
        if rows is not None:
            self.add([rows], mask, element)

    def append(self, x: object) -> None:
        if issubclass(type(x), Selection) and not issubclass(type(x), TracedList):
            x = selected(x)
        is_sized = type(x) is TracedArray and bool(x.ndim) and depends_on_data(x.shape[0])
        if type(x) is not TracedArray or not is_sized or (self.entries and not self.present):
            super().append(x)
            return
        self._note([x])
        self.add([x], None, TracedArray)
        self.present.append(self.condition())

    def add(self, rows: Sequence[Array], mask: Array | None, element: object) -> None:
        if type(element) is tracing.objects.Form:
            heap = self.element if self.entries else tracing.objects.Heap(element)
            if type(heap) is not tracing.objects.Heap or heap.form != element or self.before:
                raise refusal("a list holds objects of several classes, or some from before the loop on data")
            rows, element = [heap.add(rows)], heap
        super().add(rows, mask, element)
        self.array = None

    def together(self) -> Rows:
        if self.present or not self.entries:
            self._refuse()
        return super().together()

    def made(self) -> Array:
        if isinstance(self.element, tracing.objects.Heap):
            raise refusal(
                f"a list of objects of class {self.element.form.cls.__name__} is used as an array; make arrays of "
                "their attributes: np.array([x.score for x in items])"
            )
        return self.everything()

    def everything(self) -> Array:
        """Return the array of all elements. That of objects has their positions."""
        if self.array is None:
            (rows,), mask = self.together()
            self.array = self._after_before(rows, mask)
        return self.array

    def prepare(self) -> None:
        """Record the array and the objects, so that a loop can read them."""
        if self.entries and not self.present and not self.before:
            self.everything()
            if isinstance(self.element, tracing.objects.Heap):
                self.element.columns()

    def sort(self, *, key: Function | None = None, reverse: bool = False) -> None:
        if self.condition() is not None or len(self._running()[1]) != self.loops:
            raise refusal("a list is sorted in a branch or a loop on data; write items = sorted(items, key=...)")
        result = tracing.objects.sorted_list(self, key, reverse)
        self.before, self.entries, self.array = [], result.entries, None

    def _after_before(self, rows: Array, mask: Array | None) -> Array:
        rows = rows if mask is None else _where_true(rows, mask)
        before = self.before if self.present or not self.before else [np.stack(self.before)]
        return np.concatenate([*before, rows]) if before else rows

    def join(self, function: Function, axis: int = 0) -> Array:
        """Return what np.stack, np.vstack or np.concatenate make of the list. Other functions are refused."""
        if self.present:
            (rows,), mask = super().together()
            if axis or not (function is np.concatenate or (function is np.vstack and rows.ndim > 1)):
                self._refuse()
            return self._after_before(rows, mask)
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

    def numbers(self) -> Array:
        """Return an array with one number or row for each element of the list."""
        if not self.present:
            return self.everything()
        flags = self._flags()
        numbers = as_traced(np.arange(len(self.before) + flags.shape[0]))
        return _where_true(numbers, np.concatenate([np.ones(len(self.before), bool), flags]))

    def _flags(self) -> TracedArray:
        """Return which of the arrays are in the list."""
        flags = [as_traced(np.array(True)) if c is None else c for c in self.present]
        return as_traced(np.stack([*flags, as_traced(np.array(False))]))

    def __getitem__(self, key: Any) -> Any:
        if self.element in (list, tuple) and not isinstance(key, slice):
            self._refuse()
        if self.element is not None and self.before:
            self._refuse()
        x = self.everything()[key]
        if isinstance(key, slice):
            return GrownList([], x, element=self.element)
        if isinstance(self.element, tracing.objects.Heap):
            return self.element.at(x)
        return tracing.python_numbers.number(x, self.element) if isinstance(self.element, type) else x

    def copy(self) -> GrownList:
        (rows,), mask = self.together()
        return GrownList(self.before, rows, mask, self.element)

    def extend(self, items: Iterable[object]) -> None:
        if type(items) is not GrownList:
            for x in items:
                self.append(x)
            return
        before, (rows, mask) = [*items.before], items.together()
        for x in before:
            self.append(x)
        self.add(rows, mask, items.element)

    def __iadd__(self, other: Iterable[object]) -> GrownList:
        self.extend(other)
        return self

    def __add__(self, other: Iterable[object]) -> GrownList:
        result = self.copy()
        result.extend(other)
        return result

    def __radd__(self, other: list[object]) -> GrownList:
        """Return `other + self`. After `items += self`, the variable of the list is another object."""
        frame = sys._getframe(1)
        opcode, text = tracing.causes.running_expression(frame) if frame is user_frame() else ("", "")
        if type(other) is not list or opcode != "BINARY_OP" or not text:
            self._refuse()
        if "+=" not in text:
            return self._after(other)
        name = text.partition("+=")[0].strip()
        if name not in frame.f_code.co_varnames or frame.f_locals.get(name) is not other:
            self._refuse()
        _need_one_name(frame, sys.getrefcount(other) - _references()[0])
        return self._after(other, True)

    def __iter__(self) -> Iterator[Any]:
        """Extend a local list: in `items.extend(self)`, the variable becomes another object."""
        frame = sys._getframe(1)
        name = self._extended_list(frame)
        if name not in frame.f_code.co_varnames or type(frame.f_locals.get(name)) is not list:
            raise refusal(self.WHY, kind=JoinError)  # a loop over it may be recorded
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

    def _after(self, items: list[object], replaced: bool = False) -> GrownList:
        """Return a list with all elements after those of a plain list, which it replaces or not."""
        (rows,), mask = self.together()
        result = GrownList([*items, *self.before], rows, mask, self.element)
        if replaced:
            items[:] = [unreadable_list("a list, to which elements have been added,")]
        return result

    def __len__(self) -> int:
        return 0 if self._extended_list(sys._getframe(1)) else len(self.numbers())  # list.extend asks for it

    def __bool__(self) -> bool:
        if not self.present:
            return bool(self.everything().shape[0] > 0)
        is_filled: Any = self._flags().any()
        return bool(self.before) or tracing.decisions.truth(is_filled)


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
        def __radd__(self, other: list[object]) -> list[object]:
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


def repeated_list(items: list[object], n: int) -> GrownList:
    """Return `items * n` for a size that depends on data."""
    kinds = [tracing.python_numbers.kind_of(x) for x in items]
    is_numpy = all(issubclass(type(x), np.generic) or (type(x) is TracedArray and x._scalar) for x in items)
    if not items or len({*kinds}) > 1 or (kinds[0] is None and not is_numpy):
        raise refusal(
            "a number of selected elements, which is known only when the network runs, can repeat a list of "
            "numbers of one type only; use np.full(n, x)"
        )
    parts = [x if kinds[0] is None else tracing.python_numbers.as_dtype_of(x, kinds[0]) for x in items]
    rows = np.broadcast_to(_row(parts), (extreme("max", n, 0), len(parts)))
    return GrownList([], rows.reshape(-1), element=kinds[0])


class LoopList(Growing):
    """A list while the body of a loop is recorded, which only appends to it."""

    __slots__ = ()
    WHY = (
        "a list is read in the loop on data that appends to it; keep its length or its last element in a variable "
        "of its own"
    )


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


def unreadable_list(what: str) -> Unreadable:
    """Return the object that takes the place of a list where the code still refers to it by another name."""
    return Unreadable(f"{what} is read under another name; use one name for it")
