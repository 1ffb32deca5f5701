"""State that outlives a call: snapshots of the objects that a user's function can change."""

from __future__ import annotations

import io
import random
import sys
import types
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import PurePath
from typing import Any

import numpy as np

from anylayer.errors import TraceError
from anylayer.graph.place import refusal
from anylayer.tracing.array import TracedArray
from anylayer.tracing.python_numbers import PythonNumber
from anylayer.tracing.reach import Reach, is_users_class

GENERATORS = "the random number generator"
_MAX_COMPARED = 200_000
"""The largest number of values that a snapshot compares."""
_ATOMS = (
    bool, int, float, complex, str, bytes, type(None), type(...), Enum, PurePath, np.dtype, range, slice, type,
)  # fmt: skip
_PLAIN = (bool, int, float, str, type(None))
_MAX_DEPTH = 30
"""The largest number of levels of nested containers and objects that a snapshot descends."""
_MAX_CHECKSUM_BYTES = 1 << 20
"""The size in bytes of the largest array that is compared by its checksum.

A larger array is compared by a sum and by checksums of both ends.
"""


class Snapshot:
    """The current values, by name, of everything that a call of the subject of `reach` may change.

    `holders` maps the name of each number to the dict that contains it and its key there, `plain` that of each
    number, text and None.
    """

    def __init__(self, reach: Reach) -> None:
        self.values: dict[str, Any] = {}
        self.holders: dict[str, tuple[Any, Any]] = {}
        self.plain: dict[str, tuple[dict[str, object], str]] = {}
        self._seen: dict[int, Any] = {}
        self._depth = 0
        for name, get in reach.getters.items():
            self.take(name, get())
            if name in reach.globals and type(get()) in _PLAIN:
                self.plain[name] = reach.globals[name], name.rpartition(".")[2]
        if reach.uses_shared_generator:
            self.values[GENERATORS] = _generators()

    def changed(self, later: Snapshot) -> list[str]:
        """Return the names of the values that differ in `later`."""
        a, b = self.values, later.values
        names = [*a, *(n for n in b if n not in a)]
        return [n for n in names if (n in a) != (n in b) or a[n] != b[n]]

    def restore(self, later: Snapshot) -> list[str]:
        """Give what `later` holds the values in this snapshot, and return the names of those that differ.

        Nothing is changed, and there are no names, if anything else than numbers, texts and None differs.
        """
        names = self.changed(later)
        if any(n not in self.values or n not in later.plain or n not in self.plain for n in names):
            return []
        for n in names:
            holder, key = later.plain[n]
            holder[key] = self.values[n][1]
        return names

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
            self.values[f"len({name})"] = len(x)
            for key, value in list(x.items()):
                if type(x) is dict and isinstance(key, str):
                    self._hold(f"{name}[{key!r}]", x, key)
                self.take(f"{name}[{key!r}]" if isinstance(key, (str, int, tuple)) else f"{name}[...]", value)
        elif isinstance(x, (list, tuple, deque)):
            self.values[f"len({name})"] = len(x)
            if all(type(v) in (int, float, str, bool) for v in x):
                self.values[name] = repr(x) if isinstance(x, deque) else (type(x), tuple(map(repr, x)))
                return
            for i, value in enumerate(list(x)):
                self.take(f"{name}[{i}]", value)
        elif isinstance(x, (set, frozenset)):
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

    def _hold(self, name: str, holder: dict[str, object], key: str) -> None:
        if type(holder[key]) in (int, float):
            self.holders[name] = holder, key
        if type(holder[key]) in _PLAIN and holder[key] == holder[key]:
            self.plain[name] = holder, key

    def _instance(self, name: str, x: Any) -> None:
        self.values[f"type({name})"] = id(type(x))
        if not is_users_class(type(x)) and type(x) is not types.SimpleNamespace:
            return
        for attribute, value in list(getattr(x, "__dict__", {}).items()):
            self._hold(f"{name}.{attribute}", vars(x), attribute)
            self.take(f"{name}.{attribute}", value)
        for cls in type(x).__mro__:
            slots = vars(cls).get("__slots__", ())
            for slot in (slots,) if isinstance(slots, str) else tuple(slots):
                if slot not in ("__dict__", "__weakref__") and hasattr(x, slot):
                    self.take(f"{name}.{slot}", getattr(x, slot))


def _position(iterator: Any) -> Any:
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
    counters = [(*snapshot.holders[name], name) for name in names]
    values = [holder[key] for holder, key, _ in counters]
    try:
        for (holder, key, name), value in zip(counters, values):
            holder[key] = CallCounter(value, name)
        yield
    finally:
        for (holder, key, _), value in zip(counters, values):
            holder[key] = value


def state_refusal(name: str) -> TraceError:
    """Return the error for the state `name` that one call leaves for the next one."""
    if name == GENERATORS:
        return refusal(
            "forward draws random numbers; a value that differs from call to call cannot be recorded; pass it as "
            "an input"
        )
    return refusal(
        f"{name} changes in every call, but state that is kept between two calls cannot be recorded; do not "
        "change it in forward"
    )
