"""Distribute files over the processes of a cluster, and replace processes that die."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from typing import Any

from anylayer.errors import InputError, need
from anylayer.libraries.ray import DIED, TASK_FAILED, ray
from anylayer.ray.mapper import ROWS, Mapper, Task, written

_SECONDS = 2.0
"""Seconds of work that a process gets at once, where that is more than `ROWS` files."""
_DEATHS = 3
"""The number of processes that die before their file fails, or before the run ends if none of them has started."""


def run_files(
    files: Sequence[str], sent: Sequence[Any], task: Task, count: int
) -> Iterator[tuple[int, dict[str, str]]]:
    """Run files on `count` processes. Yield the number of files that are finished, with the errors of those that
    failed, until all are.

    Files of a process that dies run again, `ROWS` at a time and then one by one. A file fails if a process dies
    that runs it alone, and `_DEATHS` processes have died that ran it.
    """
    todo, again, deaths = deque(files), deque[list[str]](), Counter[str]()
    running: dict[Any, tuple[Any, list[str], float]] = {}
    kind = ray.remote(num_cpus=task.threads, max_restarts=0)(Mapper)
    size, starts = ROWS, 0

    def give(actor: Any, part: list[str]) -> None:
        running[actor.files.remote(part)] = actor, part, time.perf_counter()

    def next_part() -> list[str]:
        if again:
            return again.popleft()
        number = min(size, -(-len(todo) // (2 * count)))  # few at the end, so that all processes end together
        return [todo.popleft() for _ in range(number // ROWS * ROWS or number)]

    try:
        for _ in range(min(count, len(files))):
            give(kind.remote(sent, task), [])  # no files: it is finished when the process is ready
        while todo or again or any(part for _, part, _ in running.values()):
            done = ray.wait([*running])[0][0]
            actor, part, begin = running.pop(done)
            try:
                errors: dict[str, str] = ray.get(done)
            except DIED as error:
                ray.kill(actor)
                starts += not part
                need(starts < _DEATHS, f"no process of the cluster starts: {_last_line(error)}", InputError)
                deaths.update(part)
                if len(part) == 1 and deaths[part[0]] >= _DEATHS:
                    yield 1, {part[0]: f"{part[0]}: processes that run it die: {_last_line(error)}"}
                else:
                    known = written(task, part)  # where the process has died between writing and returning
                    yield len(known), {}
                    left = [path for path in part if path not in known]
                    step = ROWS if len(part) > ROWS else 1
                    again.extend(left[i : i + step] for i in range(0, len(left), step))
                give(kind.remote(sent, task), [])
                continue
            except TASK_FAILED as error:
                raise error.cause from None
            if part:
                size = max(ROWS, int(_SECONDS * len(part) / (time.perf_counter() - begin)))
                yield len(part), errors
            else:
                starts = 0
            if todo or again:
                give(actor, next_part())
    finally:
        for actor, _, _ in running.values():
            ray.kill(actor)


def _last_line(error: Exception) -> str:
    return str(error).strip().splitlines()[-1]
