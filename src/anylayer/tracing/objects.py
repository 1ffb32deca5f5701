"""Objects in lists that code on data fills: `boxes.append(Box(x, y, score))`, also named tuples and dicts.

The attributes of the objects of one class are recorded as the columns of a Heap: one array per number or array in
an attribute. The list holds positions in the heap. An item of the list is a reference: an object of the class that
reads and writes elements of the columns. Sorted and selected lists share the heap, so that a write through one of
them is a write to the object.
"""

from __future__ import annotations

import builtins
import sys
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import FunctionType
from typing import NoReturn

import numpy as np

from anylayer import tracing
from anylayer.graph.ir import Value
from anylayer.graph.place import is_users, refusal
from anylayer.graph.symbolic import is_symbolic
from anylayer.network import Array, Function
from anylayer.tracing.array import TracedArray
from anylayer.tracing.decisions import current_run
from anylayer.tracing.grown import HEAP, INDEX, GrownList, as_traced, heap_of, index_of
from anylayer.tracing.loop_items import Kind, arrays_in, kind_in
from anylayer.tracing.primitives import arange
from anylayer.tracing.python_numbers import PythonNumber, Scalar, as_arrays, number
from anylayer.tracing.reach import is_users_class
from anylayer.tracing.record import running_graph, value_of


@dataclass(frozen=True, slots=True)
class Form:
    """What the objects of a heap have in common: their class, the names of their attributes, and their kinds."""

    cls: type
    names: tuple[str, ...]
    kinds: tuple[Kind, ...]


def _parts(x: object) -> tuple[type, dict[str, object]] | None:
    """Return the class of an object, and its attributes, or None if its list cannot be recorded."""
    cls = type(x)
    if isinstance(x, dict) and cls is dict:
        return (cls, x) if x and all(type(k) is str for k in x) else None
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return cls, dict(zip(x._fields, x))
    builtin = next(base for base in cls.__mro__ if base.__module__ == "builtins")
    names_in_class = {name for base in cls.__mro__[:-1] for name in vars(base)}
    if builtin is not object or type(cls) not in (type, ABCMeta) or not is_users_class(cls):
        return None
    if not names_in_class.isdisjoint(("__getattribute__", "__init_subclass__")):
        return None
    slots = [n for base in cls.__mro__ for n, d in vars(base).items() if type(d).__name__ == "member_descriptor"]
    return cls, {n: getattr(x, n) for n in slots if hasattr(x, n)} | getattr(x, "__dict__", {})


def _kind(name: str, x: object) -> Kind:
    """Return the kind of an attribute."""
    if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
        return Kind("tuple", items=tuple(_kind(name, v) for v in x))
    if x is None or type(x) is str:
        return Kind("constant", x)
    kind = kind_in(x)
    if kind is None or any(map(is_symbolic, kind.shape)):
        raise refusal(
            f"the attribute '{name}' of an object in a list that code on data fills is {type(x).__name__}; "
            "only numbers, arrays of a fixed shape, and tuples of them can be recorded"
        )
    return kind


def _arrays(x: object) -> Iterator[object]:
    """Yield the arrays of which an attribute consists."""
    if isinstance(x, (list, tuple)) and type(x) in (list, tuple):
        for v in x:
            yield from _arrays(v)
    elif x is not None and type(x) is not str:
        yield from arrays_in(x)


def form_of(x: object) -> tuple[Form, list[object]] | None:
    """Return the form of an object and its numbers and arrays, or None if a heap cannot hold it."""
    parts = _parts(x)
    if parts is None:
        return None
    cls, values = parts
    arrays = [a for v in values.values() for a in _arrays(v)]
    if not arrays:
        return None
    return Form(cls, tuple(values), tuple(_kind(n, v) for n, v in values.items())), arrays


class Heap:
    """The objects of one form that lists refer to.

    columns: for each number or array in an attribute, the values of all objects. waiting: rows that are not yet in
    the columns. size: the number of objects.
    """

    def __init__(self, form: Form) -> None:
        self.form, self.size = form, 0
        self._columns: list[TracedArray] = []
        self._waiting: list[Sequence[Array]] = []
        self._is_written = False
        self._class = form.cls if self.is_fixed else _class_of_references(self)

    @property
    def is_fixed(self) -> bool:
        """Whether the objects cannot be changed: named tuples and dicts."""
        return issubclass(self.form.cls, (tuple, dict))

    def add(self, rows: Sequence[Array]) -> Array:
        """Add objects, and return their positions."""
        first, n = self.size, rows[0].shape[0]
        self._waiting.append(rows)
        self.size = first + n
        return as_traced(arange(n)) + first

    def columns(self) -> list[TracedArray]:
        """Return the columns, which are arrays that can be written to."""
        if self._waiting:
            parts = [self._columns, *self._waiting] if self._columns else self._waiting
            joined = [np.concatenate(p) if len(p) > 1 else p[0] for p in zip(*parts)]
            self._columns = [TracedArray(running_graph(), value_of(c)) for c in joined]
            self._waiting = []
            run = current_run.get()
            if run is not None:
                run.heaps.update((id(c), self) for c in self._columns)
        return self._columns

    def at(self, index: Scalar) -> object:
        """Return the object at a position."""
        if self.is_fixed:
            values = {n: self.get(n, index) for n in self.form.names}
            return values if self._class is dict else tuple.__new__(self._class, values.values())
        x: object = object.__new__(self._class)
        object.__setattr__(x, INDEX, index)
        return x

    def _of(self, name: str) -> tuple[Kind, list[TracedArray]]:
        """Return the kind of an attribute, and its columns."""
        counts = [sum(1 for _ in k.leaves()) for k in self.form.kinds]
        at = self.form.names.index(name)
        first = sum(counts[:at])
        return self.form.kinds[at], self.columns()[first : first + counts[at]]

    def get(self, name: str, index: Scalar) -> object:
        """Return an attribute of the object at a position."""
        kind, columns = self._of(name)
        return kind.value(iter([c[index] for c in columns]))

    def set(self, name: str, index: Scalar, value: object) -> None:
        """Set an attribute of the object at a position."""
        kind, columns = self._of(name)
        if not _kind(name, value).fits(kind) or (kind.name == "constant" and kind.of != value):
            raise refusal(
                f"the attribute '{name}' of an object in a list becomes something else; give it a value of the "
                "same type, dtype and shape in __init__"
            )
        for column, array in zip(columns, _arrays(value)):
            _note(array)
            column[index] = array

    def note_write(self) -> None:
        """Refuse later uses of the objects and arrays from which the columns were recorded: they are not written
        to.
        """
        if self.is_fixed:
            raise refusal(
                "an array in a named tuple or a dict is written to, which is in a list that code on data fills; "
                "use a class with attributes"
            )
        run = current_run.get()
        if self._is_written or run is None:
            return
        self._is_written = True
        for x, form, _, count in list(run.recorded.values()):
            if form.cls is self.form.cls:
                if count > 1:
                    raise refusal(f"an object that is in two lists is changed: {form.cls.__name__}; use one list")
                x.__class__ = _class_of_stale(form.cls)
        graph = running_graph()
        for array in run.appended.values():
            array._content = Value(graph.name("stale"), array.shape, array.dtype)
            array._version += 1
            graph.inside.add(array._content)


def note_recorded(x: object, form: Form, values: Sequence[object]) -> None:
    """Note that an object has been recorded, so that later changes of it are refused."""
    for array in values:
        _note(array)
    run = current_run.get()
    if run is not None:
        count = run.recorded[id(x)][3] if id(x) in run.recorded else 0
        run.recorded[id(x)] = x, form, values, count + 1


def require_unchanged() -> None:
    """Refuse a change of an object after it has been recorded."""
    run = current_run.get()
    for x, form, values, _ in () if run is None else run.recorded.values():
        now = form_of(x) if type(x) is form.cls else None
        if type(x) is form.cls and (now is None or now[0] != form or not _same(now[1], values)):
            raise refusal(
                f"an object of class {form.cls.__name__} is changed after code on data has appended it to a list; "
                "append it when it is complete"
            )


def _same(arrays: Sequence[object], others: Sequence[object]) -> bool:
    """Return whether two lists hold the same arrays or numbers."""
    return len(arrays) == len(others) and all(
        a is b or (type(a) is type(b) is np.ndarray and np.array_equal(a, b, equal_nan=a.dtype.kind == "f"))
        for a, b in zip(arrays, others)
    )


def _note(array: object) -> None:
    run = current_run.get()
    if run is not None and type(array) is TracedArray and not array._scalar:
        run.appended[id(array._base())] = array._base()


# ------------------------------------------------------------------------- references


def _class_of_references(heap: Heap) -> type:
    """Return the class of the references to the objects of a heap."""
    cls, names = heap.form.cls, heap.form.names
    names_in_class = {name for base in cls.__mro__[:-1] for name in vars(base)}

    def attribute(name: str) -> property:
        return property(
            lambda self: heap.get(name, index_of(self)), lambda self, value: heap.set(name, index_of(self), value)
        )

    def set_attribute(self: object, name: str, value: object) -> None:
        if name not in names and not isinstance(getattr(cls, name, None), property):
            raise refusal(f"an object in a list gets the new attribute '{name}'; set it in __init__")
        object.__setattr__(self, name, value)

    def refuse(self: object, *args: object) -> NoReturn:
        raise refusal(
            f"an object of class {cls.__name__} in a list that code on data fills cannot be copied, hashed or "
            "read as a dict; read its attributes"
        )

    def attributes(self: object) -> dict[str, object]:
        return {} if sys._getframe(1).f_globals["__name__"].startswith("anylayer.") else refuse(self)

    members: dict[str, object] = {n: attribute(n) for n in names}
    members |= {"__slots__": (INDEX,), HEAP: heap, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    members |= {"__class__": property(lambda self: cls), "__dict__": property(attributes)}
    members |= dict.fromkeys(("__copy__", "__deepcopy__", "__reduce_ex__", "__delattr__"), refuse)
    if "__setattr__" not in names_in_class:
        members["__setattr__"] = set_attribute
    if "__eq__" not in names_in_class:
        members |= {"__eq__": same_object, "__ne__": lambda a, b: same_object(a, b, True), "__hash__": refuse}
    return type(cls)(cls.__name__, (cls,), members)


def _class_of_stale(cls: type) -> type:
    """Return the class that an object gets once a reference to its record has been written to."""

    def refuse(self: object, name: str) -> object:
        if is_users(sys._getframe(1)):
            raise refusal(
                f"an object of class {cls.__name__} is read after it has changed in the list to which it was "
                "appended; read it from the list"
            )
        return object.__getattribute__(self, name)

    return type(cls)(cls.__name__, (cls,), {"__slots__": (), "__getattribute__": refuse})


def same_object(a: object, b: object, negated: bool = False) -> Scalar:
    """Return whether two variables refer to the same object: `a is b`."""
    heaps = heap_of(a), heap_of(b)
    if heaps == (None, None):
        return (a is b) is not negated
    heap = heaps[0] or heaps[1]
    if heaps[0] is heaps[1] and heap is not None:
        equal: Scalar = np.equal(index_of(a), index_of(b))
        return number(~equal if negated else equal, bool)
    if heap is not None and all(isinstance(x, heap.form.cls) for x in (a, b)):
        raise refusal(
            "an object in a list is compared with one that is in no list or in another one; use one list"
        )
    return negated


# ------------------------------------------------------------------------------- sort


def _keys_of_items(items: Iterable[object], key: Function) -> list[object]:
    keys = []
    for x in items:
        keys.append(key(x))
    return keys


def _keys(items: GrownList, key: Function | None) -> Array:
    """Return the keys by which a list is sorted as an array."""
    if key is None:
        return items.made()
    space = {**vars(builtins), **tracing.joined_ifs.builtins_of_changed_code()}
    code = tracing.changed_code.with_changed_code(_keys_of_items.__code__)
    keys: Array = tracing.rules.creation.array(FunctionType(code, {"__builtins__": space})(items, key))
    if keys.ndim != 1:
        raise refusal("the key of a sort must be a number; sort twice, by the less important key first")
    return keys


def sorted_list(items: GrownList, key: Function | None, reverse: bool) -> GrownList:
    """Return sorted(items, key=key, reverse=reverse)."""
    order = _order(_keys(items, key), reverse)
    return GrownList([], items.everything()[order], element=items.element)


def _order(keys: Array, reverse: bool) -> Array:
    """Return the positions of keys in the order of Python's sorted, in which equal ones stay as they are."""
    if reverse:
        return (keys.shape[0] - 1 - np.argsort(keys[::-1], kind="stable"))[::-1]
    return np.argsort(keys, kind="stable")


def sorted_values(items: Sequence[Scalar], key: Function | None, reverse: bool) -> list[object] | None:
    """Return a list of arrays or numbers of one kind, or of lists and tuples of them, sorted by numbers that
    depend on data. Return None for another list.
    """
    keys = [x if key is None else key(x) for x in items]
    is_known = not any(type(k) in (TracedArray, PythonNumber) for k in keys)
    if is_known or not _are_alike(items) or not _are_alike(keys) or any(map(np.ndim, map(as_arrays, keys))):
        return None
    order = _order(np.stack([a for k in keys for a in arrays_in(k)]), reverse)
    return [_at(items, order[i]) for i in range(len(items))]


def _are_alike(values: Sequence[Scalar]) -> bool:
    """Return whether all values are of one kind."""
    first, kinds = values[0], [kind_in(x) for x in values]
    if type(first) in (list, tuple):
        same = all(type(x) is type(first) and len(x) == len(first) for x in values)
        return same and all(map(_are_alike, zip(*values)))
    return all(k is not None and kinds[0] is not None and k.fits(kinds[0]) for k in kinds)


def _at(values: Sequence[Scalar], place: Array) -> object:
    """Return the value at a position that depends on data, of values of one kind."""
    first, kind, run = values[0], kind_in(values[0]), current_run.get()
    if kind is None or kind.name == "tuple":
        return type(first)(_at(column, place) for column in zip(*values))
    parts: Array = np.stack([a for x in values for a in arrays_in(x)])
    result: Scalar = kind.value(iter([as_traced(parts)[place]]))
    if run is not None and kind.name == "array":
        run.chosen += [(x._base(), x._base()._version) for x in (*values, result)]
    return result


def extreme_item(name: str, items: GrownList, key: Function | None) -> object:
    """Return max(items, key=key) or min(items, key=key)."""
    keys = _keys(items, key)
    if key is not None:
        return items[keys.argmax() if name == "max" else keys.argmin()]
    if keys.dtype.kind not in "iu":
        raise refusal(f"{name}() of a list of floats depends on where NaN is; use np.{name}(np.array(x))")
    running_graph().note(
        f"{name}() of an empty list raises ValueError in Python, and is the limit of the integers here"
    )
    limits = np.iinfo(keys.dtype)
    result = keys.max(initial=limits.min) if name == "max" else keys.min(initial=limits.max)
    return number(result, items.element) if isinstance(items.element, type) else result
