"""Run a function in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any


def in_threads(work: Callable[[Any], object], arguments: Iterable[Any]) -> None:
    """Call `work` with each argument, in a thread of its own, and wait for all."""
    threads = [threading.Thread(target=work, args=(argument,)) for argument in arguments]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
