"""Locks that let one thread at a time into a user's class, across all nodes, shapes and models that use it."""

from __future__ import annotations

import threading
from typing import Any
from weakref import WeakKeyDictionary

from anylayer.errors import LayerError


class Exclusive:
    """A reentrant lock, so that a forward may call a model that contains its own class.

    Where two threads would wait for each other's locks, the second one raises LayerError.
    """

    __slots__ = ("__weakref__", "_depth", "_lock", "_name", "_owner")

    def __init__(self, name: str) -> None:
        self._lock = threading.Lock()
        self._name = name
        self._owner = 0
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner == me:
            self._depth += 1
            return
        if not self._lock.acquire(blocking=False):
            self._wait(me)
        self._owner, self._depth = me, 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
            self._lock.release()

    def _wait(self, me: int) -> None:
        with _guard:
            other: Exclusive | None = self
            while other is not None:
                if other._owner == me:
                    raise LayerError(
                        f"two threads wait for each other: this one needs class {self._name}, and another "
                        "thread is in it. Do not call forwards that call other models from several threads"
                    )
                other = _waiting.get(other._owner)
            _waiting[me] = self
        try:
            self._lock.acquire()
        finally:
            with _guard:
                del _waiting[me]


_guard = threading.Lock()
_waiting: dict[int, Exclusive] = {}
"""The lock that each waiting thread waits for, by the thread's identifier."""
_of_classes: WeakKeyDictionary[type, Exclusive] = WeakKeyDictionary()
_of_others = Exclusive("")
"""The lock of everything that is called as a class and is not one, for example a function."""


def exclusive(cls: Any) -> Exclusive:
    """Return the lock of a user's class."""
    if not isinstance(cls, type):
        return _of_others
    with _guard:
        return _of_classes.setdefault(cls, Exclusive(cls.__name__))


def in_user_code() -> bool:
    """Return whether the calling thread is inside a user's class."""
    me = threading.get_ident()
    with _guard:
        locks = [_of_others, *_of_classes.values()]
    return any(lock._owner == me for lock in locks)
