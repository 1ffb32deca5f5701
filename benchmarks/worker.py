"""The process that runs one engine: it reads commands from standard input and answers on standard output.

A command and its answer are one line of JSON each. Commands: load (a runner and its spec), outputs (of one frame,
into an .npz), time (warm up, then measure a call), quit. What an engine prints goes to standard error.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import statistics
import sys
import time
import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.runners import Loaded

_BATCH_SECONDS = 50e-6
"""Seconds. Shorter calls are timed several at once, so that the time of reading the clock does not matter."""


def measure(
    call: Callable[[], Any], warm: float, warm_runs: int, seconds: float, runs: int, processor: bool = False
) -> dict[str, Any]:
    """Warm up for at least `warm` seconds and `warm_runs` calls, then time calls for at least `seconds` and `runs`
    calls. Return the median and the best seconds per call, the number of calls, and the processor seconds that
    this process used. processor: whether the processor's time counts, which other programs hardly change.
    """
    clock = time.process_time if processor else time.perf_counter
    stop, count, start = clock() + warm, 0, clock()
    while count < warm_runs or clock() < stop:
        call()
        count += 1
    batch = max(1, int(_BATCH_SECONDS / max((clock() - start) / count, 1e-9)))
    times: list[float] = []
    stop = clock() + seconds
    while len(times) < runs or clock() < stop:
        start = clock()
        for _ in range(batch):
            call()
        times.append((clock() - start) / batch)
    return {"median": statistics.median(times), "best": min(times), "runs": len(times) * batch}


def _used() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class _State:
    loaded: Loaded | None = None


def _answer(command: dict[str, Any], state: _State) -> dict[str, Any]:
    what = command.pop("do")
    if what == "load":
        module = importlib.import_module(f"benchmarks.runners.{command['runner']}")
        start = time.perf_counter()
        state.loaded = module.load(command["spec"])
        spent = time.perf_counter() - start
        return {"calls": list(state.loaded.calls), "facts": state.loaded.facts, "load_seconds": spent}
    if state.loaded is None:
        raise RuntimeError("nothing is loaded")
    if what == "outputs":
        np.savez(command["path"], **state.loaded.outputs(command["call"]))
        return {}
    call = state.loaded.calls[command.pop("call")]
    before = _used()
    result = measure(call, **command)
    return {**result, "cpu": _used() - before}


def main() -> None:
    """Answer commands until the input ends or `quit` comes."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    state = _State()
    for line in sys.stdin:
        command = json.loads(line)
        if command["do"] == "quit":
            break
        try:
            reply = _answer(command, state)
        except Exception as error:
            traceback.print_exc()
            reply = {"error": f"{type(error).__name__}: {error}"}
        replies.write(json.dumps(reply) + "\n")
        replies.flush()


if __name__ == "__main__":
    main()
