"""User code in a module of its own, for the tests of what a trace reaches."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from anylayer.network import Array

ANCHORS = np.arange(12, dtype=np.float32)


def filled(x: Array) -> Array:
    """Write into a new array, which only the second attempt records."""
    out = np.zeros(x.shape, np.float32)
    out[:, 0] = x[:, 0] * 2
    out[:, 1:] = x[:, 1:]
    return out


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a function without a name of its own for it."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def made() -> Callable[[Array], Array]:
    """Return a function that knows NumPy by its closure only."""
    import numpy as hidden

    def inside(x: Array, zeros: Any = hidden.zeros) -> Array:
        out, more = hidden.zeros(x.shape, np.float32), zeros(x.shape, np.float32)
        out[:], more[:] = x, 1
        return out + more

    return inside


class Head:
    """An object with every kind of method."""

    scale = 2

    def __init__(self) -> None:
        self.numpy = np
        self.table = np.arange(6, dtype=np.float32)

    def decode(self, x: Array) -> Array:
        return filled(x) * self.scale

    @staticmethod
    def static(x: Array) -> Array:
        return filled(x)

    @classmethod
    def of_class(cls, x: Array) -> Array:
        return filled(x) * cls.scale

    @property
    def grid(self) -> Array:
        out = np.zeros(4, np.float32)
        out[1:] = np.arange(3)
        return out

    def __call__(self, x: Array) -> Array:
        return self.decode(x)

    def __matmul__(self, x: Array) -> Array:
        return self.decode(x)

    def __iter__(self) -> Iterator[Callable[[Array], Array]]:
        yield self.decode

    def by_attribute(self, x: Array) -> Array:
        out = self.numpy.zeros(x.shape, np.float32)
        out[:] = x
        return out

    def chosen(self, x: Array) -> Array:
        return self.table[x.argmax(1)] + ANCHORS[x.argmin(1)]

    @contextmanager
    def buffer(self, x: Array) -> Iterator[Array]:
        yield filled(x)


class Inherited(Head):
    """A subclass that calls its base."""

    scale = 3

    def decode(self, x: Array) -> Array:
        return super().decode(x) + 1


class Slotted:
    """An object without a dict."""

    __slots__ = ("head", "heads")

    def __init__(self) -> None:
        self.head = Head()
        self.heads = {"first": [self.head], "second": (Inherited(),)}


class Tables:
    """An object that holds data only."""

    rows = np.arange(12, dtype=np.float32)


@functools.cache
def grid(size: int) -> Array:
    """Return an array that is made once, by writing into it."""
    out = np.zeros(size, np.float32)
    out[1:] = 1
    return out


decorated = logged(filled)
