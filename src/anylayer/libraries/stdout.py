"""Redirect the stdout of the process, to which layers in Python and in C print."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
import threading
from collections.abc import Iterator
from typing import TextIO

_lock = threading.Lock()
_open: list[bool] = []
"""For each open context whether it drops the output. No thread waits for the contexts of another one."""
_kept: list[tuple[int, TextIO, TextIO]] = []
"""While a context is open: a copy of the descriptor before it (-1 if it was closed), Python's file before it, and
the null device."""


@contextlib.contextmanager
def redirected_stdout(*, drop: bool) -> Iterator[None]:
    """Send what the process prints to stdout to stderr, or drop it.

    While several contexts are open, in one or in several threads, the output is dropped if one of them drops it.
    """
    with _lock:
        _open.append(drop)
        _redirect()
    try:
        yield
    finally:
        with _lock:
            _open.remove(drop)
            _redirect()


def drops_output() -> bool:
    """Return whether stdout is dropped now, and with it the log of libraries."""
    return any(_open)


def _redirect() -> None:
    """Send stdout to where the open contexts want it."""
    with contextlib.suppress(AttributeError, OSError, ValueError):  # there is no stdout, or it is closed
        sys.stdout.flush()
    (ctypes.CDLL("msvcrt") if sys.platform == "win32" else ctypes.CDLL(None)).fflush(None)
    if not _kept:
        opened: TextIO = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8", errors="replace")
        _kept.append((_copy(1), sys.stdout, opened))
    descriptor, file, null = _kept[0]
    if drops_output() or sys.stdout is null:
        sys.stdout = null if drops_output() else file
    if descriptor >= 0:
        os.dup2(null.fileno() if drops_output() else 2 if _open else descriptor, 1)
    if not _open:
        _kept.clear()
        null.close()
        if descriptor >= 0:
            os.close(descriptor)


def _copy(descriptor: int) -> int:
    """Return a copy of a descriptor, -1 if it is closed."""
    try:
        return os.dup(descriptor)
    except OSError:
        return -1
