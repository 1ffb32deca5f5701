"""How many operators a function may record, in one trace and in all of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from anylayer.errors import TraceError
from anylayer.graph.place import refusal


class TooManyOperators(TraceError):
    """The error of a graph that would exceed its limit of operators."""


_MAX_REPEATED = 70_000
"""The largest number of operators that one function records where it is traced for many combinations of paths."""
_left: ContextVar[list[int] | None] = ContextVar("left", default=None)
"""How many operators may still be recorded, and how many in all."""


@contextmanager
def limit_repetition() -> Iterator[None]:
    """Limit the number of operators that all traces inside of the outermost such context record together."""
    token = _left.set(_left.get() or [_MAX_REPEATED] * 2)
    try:
        yield
    finally:
        _left.reset(token)


class TooMuchInAll(TraceError):
    """The error of a function that records too many operators in all combinations of its paths."""


def take_operator() -> None:
    """Count an operator that is recorded. Raises TooMuchInAll."""
    left = _left.get()
    if left is not None:
        left[0] -= 1
        if left[0] < 0:
            raise _too_much()


def recorded_in_all() -> int:
    """Return the number of operators that all traces inside of limit_repetition have recorded so far."""
    left = _left.get()
    return 0 if left is None else left[1] - left[0]


def allow_operators(number: int) -> None:
    """Let the traces inside of limit_repetition record so many operators from now on, if fewer are left."""
    left = _left.get()
    if left is not None and number > left[0]:
        left[:] = [number, left[1] + number - left[0]]


def need_operators(number: int, place: str | None) -> None:
    """Raise TooMuchInAll if recording so many more operators, for the question at `place`, exceeds the limit."""
    left = _left.get()
    if left is not None and number > left[0]:
        raise _too_much(place)


def _too_much(place: str | None = None) -> TraceError:
    most = (_left.get() or [0, _MAX_REPEATED])[1]
    return refusal(
        f"this records more than {most} operators in all, because it is traced once for each combination of "
        "branches and of empty selections; compute all classes or images as one array, remove questions whose "
        "answer changes nothing (if len(x) == 0), or divide the function among several layers",
        place=place,
        kind=TooMuchInAll,
    )
