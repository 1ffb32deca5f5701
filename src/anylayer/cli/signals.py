"""Handle signals that terminate the process like an interrupt, so that temporary files are deleted."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_SIGNALS = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Terminated(KeyboardInterrupt):
    """Raised for a signal that terminates the process. `status` is the exit status that shells use for it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


@contextmanager
def keeping_interrupts() -> Iterator[None]:
    """Raise the KeyboardInterrupt in whose place a package raised another exception. An interrupt while a module
    in C++ is imported becomes an ImportError."""
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and not isinstance(cause, KeyboardInterrupt):
            cause = cause.__cause__ or cause.__context__
        if cause is None:
            raise
        raise cause from None


@contextmanager
def raising_terminated() -> Iterator[None]:
    """Raise Terminated for SIGTERM and SIGHUP inside the `with` block. A second signal ends the process at once.

    A signal that already has a handler keeps it.
    """
    handled = [
        number
        for number in _SIGNALS
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is signal.SIG_DFL
    ]

    def stop(number: int, frame: FrameType | None) -> None:
        for other in handled:
            signal.signal(other, signal.SIG_DFL)
        raise Terminated(number)

    for number in handled:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in handled:
            signal.signal(number, signal.SIG_DFL)
