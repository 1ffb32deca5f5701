"""Calls of the clock and of random numbers that no seed determines, noticed while the user's code runs."""

from __future__ import annotations

import datetime
import random
import secrets
import sys
import uuid
from collections.abc import Iterator, Set
from contextlib import contextmanager
from types import FrameType
from typing import Any

from anylayer.graph.place import place_of
from anylayer.tracing.causes import running_call
from anylayer.tracing.reach import package_of

_CLOCKS = frozenset(
    f"{name}{unit}"
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time", "clock_gettime")
    for unit in ("", "_ns")
) | {"localtime", "gmtime", "ctime"}
"""The functions of the module time that read the clock."""
_DATES = frozenset(("now", "utcnow", "today"))
_DRAWING = frozenset(str(module.__file__) for module in (random, secrets, uuid))
"""The files of the modules that draw random numbers for their caller."""


@contextmanager
def noticed_calls(files: Set[str]) -> Iterator[list[tuple[str, str]]]:
    """Yield a list that receives (description, place) of each call of the user's code inside the context whose
    result is different every time.

    `files` are those of the user's code that installed packages contain. Calls elsewhere are not the user's:
    logging reads the clock, and so may a function that the garbage collector calls.
    """
    found: list[tuple[str, str]] = []

    def is_users(frame: FrameType | None) -> bool:
        if frame is None:
            return False
        return frame.f_code.co_filename in files or package_of(frame.f_code.co_filename) == ""

    def event(frame: FrameType, kind: str, function: Any) -> None:
        if kind == "c_call":
            name = function.__name__
            if name in _CLOCKS or name in _DATES:
                if is_users(frame) and _reads_clock(function):
                    found.append((f"{running_call(frame) or name} reads the clock", place_of(frame)))
            elif name in ("urandom", "getrandom") or (name == "seed" and _seeds_itself(frame)):
                caller = _caller(frame)
                if is_users(caller):
                    what = f"{running_call(caller) or name} draws random numbers that no seed determines"
                    found.append((what, place_of(caller)))

    before = sys.getprofile()
    sys.setprofile(event)
    try:
        yield found
    finally:
        sys.setprofile(None)
        if before is not None:
            getattr(before, "enable", lambda: sys.setprofile(before))()


def _reads_clock(function: Any) -> bool:
    owner = getattr(function, "__self__", None)
    if isinstance(owner, type):
        return issubclass(owner, datetime.date) and function.__name__ in _DATES
    return bool(function.__module__ == "time")


def _seeds_itself(frame: FrameType) -> bool:
    """Return whether a frame is the method `seed` of random.Random, without a seed."""
    return frame.f_code is random.Random.seed.__code__ and frame.f_locals.get("a", 0) is None


def _caller(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside of the modules that draw random numbers for their caller."""
    while frame is not None and frame.f_code.co_filename in _DRAWING:
        frame = frame.f_back
    return frame
