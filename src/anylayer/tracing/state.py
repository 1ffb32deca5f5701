"""State that outlives a call: snapshots of the objects that a user's function can change."""

from __future__ import annotations

import io
import random
import sys
import types
import zlib
from collections import deque
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

from anylayer.errors import TraceError
from anylayer.graph.place import refusal
from anylayer.tracing.array import TracedArray
from anylayer.tracing.python_numbers import PythonNumber
from anylayer.tracing.reach import Reach, class_data, is_users_class

GENERATORS = "the random number generator"
_MAX_COMPARED = 200_000
"""The largest number of values that a snapshot compares."""
_ATOMS = (
    bool, int, float, complex, str, bytes, type(None), type(...), Enum, PurePath, np.dtype, range, slice, type,
)  # fmt: skip
_MAX_DEPTH = 30
"""The largest number of levels of nested containers and objects that a snapshot descends."""
_MAX_CHECKSUM_BYTES = 1 << 20
"""The size in bytes of the largest array that is compared by its checksum.

A larger array is compared by a sum and by checksums of both ends.
"""


_Place = tuple[object, Hashable]
"""An object that holds others, and the key or attribute of one of them."""

_EMPTY_CELL = object()
_Container = list[object] | set[object] | deque[object]


def _get(place: _Place) -> object:
    holder, key = place
    try:
        return holder.get(key) if isinstance(holder, dict) else getattr(holder, str(key), None)
    except ValueError:
        return _EMPTY_CELL


def _put(place: _Place, value: object) -> None:
    holder, key = place
    if isinstance(holder, dict):
        holder[key] = value
    else:
        setattr(holder, str(key), value)


class Snapshot:
    """The current values, by name, of everything that a call of the subject of `reach` may change.

    `numbers` maps the name of each number to its place: the dict, instance, class or cell of a closure that holds
    it, and the key or attribute there.
    """

    def __init__(self, reach: Reach) -> None:
        self.values: dict[str, Any] = {}
        self.numbers: dict[str, _Place] = {}
        self._held: dict[tuple[int, Hashable], tuple[_Place, object]] = {}
        self._contents: list[tuple[_Container, list[object]]] = []
        self._seen: dict[int, Any] = {}
        self._depth = 0
        for name, get in reach.getters.items():
            if name in reach.places:
                self._hold(name, *reach.places[name])
            self.take(name, get())
        for cls in reach.classes:
            for attribute, value in class_data(cls).items():
                self._hold(f"{cls.__name__}.{attribute}", cls, attribute)
                self.take(f"{cls.__name__}.{attribute}", value)
        if reach.uses_shared_generator:
            self.values[GENERATORS] = _generators()

    def changed(self, later: Snapshot) -> list[str]:
        """Return the names of the values that differ in `later`."""
        a, b = self.values, later.values
        names = [*a, *(n for n in b if n not in a)]
        return [n for n in names if (n in a) != (n in b) or a[n] != b[n]]

    def restore(self, reach: Reach) -> tuple[list[str], list[str]]:
        """Give the objects of this snapshot of `reach` their content back, and return the names of what differed.

        The second list leaves out new arrays and objects, which a call may make once and keep. Nothing is changed,
        and there are no names, if something else differs, too, as the content of an array.
        """
        later = Snapshot(reach)
        names = self.changed(later)
        if names:
            self._put_back(later)
            if self.changed(Snapshot(reach)):
                later._put_back(self)
                return [], []
        return names, [n for n in names if not self._is_cached(n, later)]

    def _put_back(self, later: Snapshot) -> None:
        for new in later._held.keys() - self._held.keys():
            holder, key = later._held[new][0]
            if id(holder) in later._seen and id(holder) not in self._seen:
                continue  # the holder is new, too
            if isinstance(holder, dict):
                holder.pop(key, None)
            elif hasattr(holder, str(key)):
                delattr(holder, str(key))
        for place, value in self._held.values():
            if _get(place) is not value:
                _put(place, value)
        for container, content in self._contents:
            if len(container) != len(content) or any(a is not b for a, b in zip(container, content)):
                container.clear()
                container.update(content) if isinstance(container, set) else container.extend(content)

    def _is_cached(self, name: str, later: Snapshot) -> bool:
        """Return whether a value that differs belongs to a new array or object."""
        value = later.values.get(name)
        if value is None or (type(value) is tuple and type(value[0]) is not type):  # that of an array, or keys
            return True
        outer = [name[:i] for i, c in enumerate(name) if c in ".["]
        containers = {f"{kind}({n})" for n in outer for kind in ("type", "len")}
        if name.startswith(("type(", "len(")):
            containers.add(name)
        return not containers.isdisjoint(later.values.keys() - self.values.keys())

    def take(self, name: str, x: Any) -> None:
        """Record a value and the values inside it."""
        if len(self.values) >= _MAX_COMPARED:
            return
        x = x.array if type(x) is PythonNumber else x
        if isinstance(x, _ATOMS):
            self.values[name] = (type(x), x if x == x else repr(x))
        elif type(x) is TracedArray:
            const = x._const()
            self.values[name] = ("traced", x.shape, x.dtype) if const is None else _array(const)
        elif isinstance(x, (types.ModuleType, types.BuiltinFunctionType, np.ufunc)):
            self.values[name] = id(x)
        elif isinstance(x, types.FunctionType):
            self.values[name] = id(x.__code__)
        elif isinstance(x, (np.ndarray, np.generic)):
            self.values[name] = _array(np.asarray(x))
        elif id(x) not in self._seen and self._depth < _MAX_DEPTH:
            self._seen[id(x)] = x
            self._depth += 1
            self._compound(name, x)
            self._depth -= 1

    def _compound(self, name: str, x: Any) -> None:
        if isinstance(x, Mapping):
            self.values[f"len({name})"] = "keys", len(x)
            for key, value in list(x.items()):
                if isinstance(x, dict):
                    self._hold(f"{name}[{key!r}]", x, key)
                self.take(f"{name}[{key!r}]" if isinstance(key, (str, int, tuple)) else f"{name}[...]", value)
        elif isinstance(x, (list, tuple, deque)):
            if type(x) is list or type(x) is deque:
                self._keep(x)
            self.values[f"len({name})"] = len(x)
            if all(type(v) in (int, float, str, bool) for v in x):
                self.values[name] = repr(x) if isinstance(x, deque) else (type(x), tuple(map(repr, x)))
                return
            for i, value in enumerate(list(x)):
                self.take(f"{name}[{i}]", value)
        elif isinstance(x, (set, frozenset)):
            if type(x) is set:
                self._keep(x)
            self.values[name] = sorted(map(repr, x))
        elif isinstance(x, random.Random):
            self.values[name] = x.getstate()
        elif type(x).__module__.startswith("numpy.random"):
            generator = getattr(x, "bit_generator", x)
            self.values[name] = _comparable(
                generator.state if hasattr(generator, "state") else x.get_state(legacy=False)
            )
        elif isinstance(x, io.IOBase):
            self.values[name] = id(x)
        elif hasattr(x, "__next__"):
            self.values[name] = _position(x)
        else:
            self._instance(name, x)

    def _hold(self, name: str, holder: object, key: Hashable) -> None:
        value = _get((holder, key))
        if value is not _EMPTY_CELL:
            self._held[id(holder), key] = (holder, key), value
        if type(value) in (int, float):
            self.numbers[name] = holder, key

    def _keep(self, container: _Container) -> None:
        self._contents.append((container, list(container)))

    def _instance(self, name: str, x: Any) -> None:
        self.values[f"type({name})"] = id(type(x))
        if not is_users_class(type(x)) and type(x) is not types.SimpleNamespace:
            return
        bases = [base for base in type(x).__mro__ if base.__module__.startswith("anylayer.")]
        ours = {attribute for base in bases for attribute in vars(base).get("__annotations__", ())}
        attributes = getattr(x, "__dict__", {})
        self._seen[id(attributes)] = attributes
        for attribute, value in list(attributes.items()):
            if attribute not in ours:
                self._hold(f"{name}.{attribute}", attributes, attribute)
                self.take(f"{name}.{attribute}", value)
        for cls in type(x).__mro__:
            slots = vars(cls).get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else tuple(slots):
                if slot not in ("__dict__", "__weakref__") and hasattr(x, slot):
                    self._hold(f"{name}.{slot}", x, slot)
                    self.take(f"{name}.{slot}", getattr(x, slot))


def _position(iterator: object) -> object:
    """Return the position of an iterator, or a new object each time if the iterator does not reveal it.

    An iterator over others, as zip makes it, reveals only where they are.
    """
    try:
        position = repr(iterator.__reduce__())
    except TypeError:
        return object()
    return object() if "iterator object at 0x" in position else position


def _array(x: np.ndarray[Any, Any]) -> Any:
    """Return a summary of the content of an array. A read-only array is identified by its address."""
    if not x.flags.writeable and x.ndim:
        return x.shape, x.dtype, x.__array_interface__["data"][0]
    if x.dtype.hasobject:
        return x.shape, x.dtype, repr(x.tolist())
    if x.nbytes <= _MAX_CHECKSUM_BYTES or not x.flags.c_contiguous:
        return x.shape, x.dtype, zlib.crc32(np.ascontiguousarray(x).data)
    flat = x.reshape(-1).view(np.uint8)
    whole = flat[: flat.size // 8 * 8].view(np.uint64)
    return (
        x.shape,
        x.dtype,
        int(whole.sum()),
        zlib.crc32(flat[:_MAX_CHECKSUM_BYTES].data),
        zlib.crc32(flat[-_MAX_CHECKSUM_BYTES:].data),
    )


def _generators() -> Any:
    """Return the state of the random number generators that the functions of `random` and `np.random` share."""
    numpys = sys.modules.get("numpy.random")
    return random.getstate(), None if numpys is None else _comparable(numpys.get_state(legacy=False))


def _comparable(state: Any) -> Any:
    """Return the state of a bit generator with bytes instead of arrays."""
    if isinstance(state, Mapping):
        return {name: _comparable(value) for name, value in state.items()}
    return state.tobytes() if isinstance(state, np.ndarray) else state


class CallCounter:
    """A substitute for a number that changes in every call: it can be incremented, but not read."""

    __slots__ = ("_name", "_value")
    __hash__ = None  # type: ignore[assignment]  # unhashable, as NumPy's arrays are

    def __init__(self, value: Any, name: str) -> None:
        self._value, self._name = value, name

    def _count(self, other: Any, function: Callable[[Any, Any], Any]) -> Any:
        value = other._value if type(other) is CallCounter else other
        if type(value) not in (int, float, bool):
            return self._refuse_reading()
        return CallCounter(function(self._value, value), self._name)

    def __add__(self, other: Any) -> Any:
        return self._count(other, lambda a, b: a + b)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self._count(other, lambda a, b: a - b)

    def _refuse_reading(self, *_: Any, **__: Any) -> Any:
        raise state_refusal(self._name)

    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = __int__ = __index__ = __float__ = (
        _refuse_reading
    )
    __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = (
        _refuse_reading
    )
    __pow__ = __rpow__ = __rsub__ = __neg__ = __abs__ = __divmod__ = __and__ = __rand__ = __or__ = _refuse_reading
    __xor__ = __lshift__ = __rshift__ = __rlshift__ = __rrshift__ = __round__ = __str__ = __format__ = (
        _refuse_reading
    )
    __repr__ = __array__ = __array_ufunc__ = __complex__ = __trunc__ = __floor__ = __ceil__ = _refuse_reading

    def __getattr__(self, name: str) -> Any:
        return self._refuse_reading()


@contextmanager
def replace_counters(snapshot: Snapshot, names: Sequence[str]) -> Iterator[None]:
    """Replace the named numbers, which change in every call, with CallCounters inside the context."""
    places = [snapshot.numbers[name] for name in names]
    values = [_get(place) for place in places]
    try:
        for place, value, name in zip(places, values, names):
            _put(place, CallCounter(value, name))
        yield
    finally:
        for place, value in zip(places, values):
            _put(place, value)


def state_refusal(name: str, place: str | None = None) -> TraceError:
    """Return the error for the state `name` that one call leaves for the next one. `place` is as in refusal."""
    if name == GENERATORS:
        return refusal(
            "forward draws random numbers; a value that differs from call to call cannot be recorded; pass it as "
            "an input",
            place=place,
        )
    return refusal(
        f"{name} changes in every call, but state that is kept between two calls cannot be recorded; do not "
        "change it in forward",
        place=place,
    )
