"""Copy the instance of a user's class, so that calls before the network runs do not change its state."""

from __future__ import annotations

import types
from typing import Any

import numpy as np

from anylayer.network import Flag, Word

_VALUES = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, Flag, Word)
_REFERENCES = (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType, np.ufunc, np.dtype)
_COPYING_METHODS = frozenset(
    ("__del__", "__copy__", "__deepcopy__", "__getstate__", "__setstate__", "__reduce__", "__reduce_ex__")
)
_MAX_BYTES = 64 << 20
"""An instance whose arrays take more bytes is not copied."""


class _NotPlainError(Exception):
    """An instance holds something other than plain data."""


def copied(instance: Any) -> Any | None:
    """Return a copy of an instance that shares no state with it, or None where a copy could behave differently.

    An instance is copied if its state is plain data (numbers, strings, arrays, and lists, tuples, sets and dicts
    of them) and its class does not define how it is copied or deleted.
    """
    cls = type(instance)
    above = [vars(base) for base in cls.__mro__ if base is not object]
    if any(_COPYING_METHODS.intersection(names) or names.get("__slots__") for names in above):
        return None
    try:
        duplicate = object.__new__(cls)
        vars(duplicate).update(_Copies().copy(vars(instance)))
    except (_NotPlainError, RecursionError, TypeError):
        return None
    return duplicate


class _Copies:
    """Copy the values of one instance. A value that occurs twice is copied once."""

    def __init__(self) -> None:
        self._made: dict[int, Any] = {}
        self._owners: set[int] = set()
        self._bytes = 0

    def copy(self, value: Any) -> Any:
        kind = type(value)
        if kind in _VALUES or isinstance(value, (*_REFERENCES, np.generic)):
            return value
        if isinstance(value, int) and not hasattr(value, "__dict__"):
            return value
        if id(value) not in self._made:
            self._made[id(value)] = self._array(value) if kind is np.ndarray else self._collection(kind, value)
        return self._made[id(value)]

    def _array(self, value: Any) -> Any:
        """Return a copy of an array. Refuse two views of the same memory: writing to one changes the other."""
        owner = value if value.base is None else value.base
        self._bytes += value.nbytes
        if value.dtype.hasobject or id(owner) in self._owners or self._bytes > _MAX_BYTES:
            raise _NotPlainError
        self._owners.add(id(owner))
        return value.copy(order="K")

    def _collection(self, kind: type, value: Any) -> Any:
        if kind is dict:
            return {self.copy(key): self.copy(item) for key, item in value.items()}
        if kind in (list, tuple, set, frozenset):
            return kind(self.copy(item) for item in value)
        raise _NotPlainError
