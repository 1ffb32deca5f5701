"""Iterators and functions that run in threads of their own, so that work overlaps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from queue import Queue
from threading import Event, Thread
from typing import Any, TypeVar

T = TypeVar("T")
_AHEAD = 4
"""The number of items that wait between two threads."""


def ahead(items: Iterator[T], depth: int = _AHEAD) -> Generator[T, None, None]:
    """Yield the items of an iterator, which a thread of its own computes, at most `depth` ahead. An error of the
    iterator is raised here."""
    waiting: Queue[tuple[bool, Any]] = Queue(depth)  # (True, item), or (False, the error at the end)
    stopped = Event()

    def work() -> None:
        try:
            for item in items:
                waiting.put((True, item))
                if stopped.is_set():
                    return
            waiting.put((False, None))
        except BaseException as error:
            waiting.put((False, error))

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        while True:
            more, item = waiting.get()
            if not more:
                if item is not None:
                    raise item
                return
            yield item
    finally:
        stopped.set()
        while thread.is_alive():
            while not waiting.empty():
                waiting.get_nowait()
            thread.join(0.05)


@contextmanager
def behind(act: Callable[..., None], depth: int = _AHEAD) -> Iterator[Callable[..., None]]:
    """Yield a function that queues items, for each of which a thread of its own calls `act`.

    All items are done when the block ends. An error of `act` is raised by the next call, or at the end.
    """
    waiting: Queue[Any] = Queue(depth)
    failed: list[BaseException] = []

    def work() -> None:
        while (item := waiting.get()) is not None:
            if not failed:
                try:
                    act(*item)
                except BaseException as error:
                    failed.append(error)

    def put(*item: Any) -> None:
        if failed:
            raise failed[0]
        waiting.put(item)

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        yield put
    finally:
        waiting.put(None)
        thread.join()
    if failed:
        raise failed[0]
