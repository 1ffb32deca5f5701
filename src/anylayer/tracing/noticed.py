"""Calls that a graph cannot make, noticed while the user's code runs: of the clock, of random numbers that no seed
determines, and of output.
"""

from __future__ import annotations

import datetime
import io
import random
import re
import secrets
import sys
import uuid
from collections.abc import Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from anylayer import tracing
from anylayer.graph.place import Lost, place_of
from anylayer.tracing.reach import STDLIB, package_of

_CLOCKS = frozenset(
    f"{name}{unit}"
    for name in ("time", "perf_counter", "monotonic", "process_time", "thread_time", "clock_gettime")
    for unit in ("", "_ns")
) | {"localtime", "gmtime", "ctime"}
"""The functions of the module time that read the clock."""
_DATES = frozenset(("now", "utcnow", "today"))
_DRAWING = frozenset(str(module.__file__) for module in (random, secrets, uuid))
"""The files of the modules that draw random numbers for their caller."""
_WRITING = frozenset(("print", "write", "writelines", "warn", "warn_explicit"))
"""The names of functions that write to a file, or show a text to a person."""
_NOTICED = _CLOCKS | _DATES | _WRITING | {"urandom", "getrandom", "seed"}
"""The names of all functions written in C that may be such calls."""


@dataclass(slots=True)
class NoticedCalls:
    """Calls of the user's code: those whose result differs every time, as (description, place), and those that
    write to a file or show a text, as (function, place)."""

    differing: list[tuple[str, str]] = field(default_factory=list)
    writing: list[tuple[str, str]] = field(default_factory=list)


@contextmanager
def noticed_calls(files: Set[str]) -> Iterator[NoticedCalls]:
    """Yield an object that receives the calls of the user's code inside the context which a graph cannot make.

    `files` are those of the user's code that installed packages contain. Calls elsewhere are not the user's:
    logging reads the clock, and so may a function that the garbage collector calls.
    """
    calls = NoticedCalls()

    def is_users(frame: FrameType | None) -> bool:
        if frame is None:
            return False
        return frame.f_code.co_filename in files or package_of(frame.f_code.co_filename) == ""

    def writes(frame: FrameType | None, name: str) -> None:
        caller = _writer(frame)
        if is_users(caller):
            calls.writing.append((tracing.causes.running_call(caller) or name, place_of(caller)))

    def event(frame: FrameType, kind: str, function: Any) -> None:
        if kind == "call" and frame.f_code.co_name == "callHandlers" and _in_standard_library(frame):
            writes(frame, "logging")
        if kind == "c_call" and (name := function.__name__) in _NOTICED:
            if name in _CLOCKS or name in _DATES:
                if is_users(frame) and _reads_clock(function):
                    call = tracing.causes.running_call(frame) or name
                    calls.differing.append((f"{call} reads the clock", place_of(frame)))
            elif name in _WRITING:
                if not isinstance(_destination(frame, function), (io.StringIO, io.BytesIO)):
                    writes(frame, name)
            elif name != "seed" or _seeds_itself(frame):
                caller = _caller(frame)
                if is_users(caller):
                    call = tracing.causes.running_call(caller) or name
                    what = f"{call} draws random numbers that no seed determines"
                    calls.differing.append((what, place_of(caller)))

    before = sys.getprofile()
    sys.setprofile(event)
    try:
        yield calls
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


def _writer(frame: FrameType | None) -> FrameType | None:
    """Return the innermost frame outside of the standard library and of the substitute for print."""
    print_ = tracing.substitution_symbolic.print_text.__code__
    while frame is not None and (frame.f_code is print_ or _in_standard_library(frame)):
        frame = frame.f_back
    return frame


def _in_standard_library(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith(STDLIB) and "-packages" not in file


def _destination(frame: FrameType, function: object) -> object:
    """Return the file that a call of print or of a method of a file writes to, or None if it is not known."""
    if function is not print:
        return getattr(function, "__self__", None)
    match = re.search(r"\bfile=(\w+)", tracing.causes.running_expression(frame)[1])
    variables = {**frame.f_globals, **frame.f_locals}
    return variables.get(match[1]) if match else variables.get("file")


def lost(call: tuple[str, str]) -> Lost:
    """Return the note on a call that writes."""
    function, place = call
    return Lost(
        f"{place}: what {function}(...) writes appears while the code is traced, and is not part of the network"
    )
