"""What ends the command line from outside ends it as an interrupt does: temporary files go."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))


class Terminated(KeyboardInterrupt):
    """A signal that asks the program to end. `status` is the exit status that a shell gives for it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.status = 128 + number


@contextmanager
def ending() -> Iterator[None]:
    """Raise Terminated for the signals that ask the program to end. A second signal ends it at once. Signals that
    somebody has other plans with are left alone."""
    taken = [
        number
        for number in _ENDING
        if threading.current_thread() is threading.main_thread() and signal.getsignal(number) is signal.SIG_DFL
    ]

    def stop(number: int, frame: FrameType | None) -> None:
        for other in taken:
            signal.signal(other, signal.SIG_DFL)
        raise Terminated(number)

    for number in taken:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)
