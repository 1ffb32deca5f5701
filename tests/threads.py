"""Run functions in several threads that cannot outlast their test."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

MAX_SECONDS = 120


def started(job: Callable[[], Any]) -> threading.Thread:
    """Start a job in a thread that ends with the process, also if the job waits for ever."""
    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    return thread


def ended(*threads: threading.Thread) -> None:
    """Wait for threads, and fail if one of them does not end."""
    for thread in threads:
        thread.join(MAX_SECONDS)
        assert not thread.is_alive(), "a thread waits for ever"


def together(*jobs: Callable[[], Any]) -> list[BaseException]:
    """Run the jobs in threads, which must end; return the exceptions that they raised."""
    raised: list[BaseException] = []

    def run(job: Callable[[], Any]) -> None:
        try:
            job()
        except BaseException as error:
            raised.append(error)

    ended(*[started(partial(run, job)) for job in jobs])
    return raised


def in_threads(work: Callable[[Any], object], arguments: Iterable[Any]) -> None:
    """Call `work` with each argument, in a thread of its own, and wait for all. Raise the first exception."""
    for error in together(*[partial(work, argument) for argument in arguments]):
        raise error
