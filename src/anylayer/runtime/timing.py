"""Measure the alternatives of engine "auto" by interleaved calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

_TRIAL_SECONDS = 0.5
"""The mean time, in seconds, for which each call is measured."""
_SPIN_SECONDS = 0.06
"""ONNX Runtime's threads spin this long after a call (2**20 pauses of some 50 cycles). An engine that is measured
meanwhile takes twice its time."""
_TURN_SECONDS = 0.03
"""The time, in seconds, for which a call is measured before the next call takes its turn."""


def timed_in_turns(calls: Mapping[str, Callable[[], object]], seconds: float = _TRIAL_SECONDS) -> dict[str, float]:
    """Return the seconds of the fastest run of each call. The calls take turns.

    seconds: how long each call is measured, on average.
    """
    best = dict.fromkeys(calls, float("inf"))
    stop = time.perf_counter() + seconds * len(calls)
    while True:
        for name, call in calls.items():
            time.sleep(_SPIN_SECONDS)
            call()  # does not count, because the caches hold another call's data
            turn = time.perf_counter() + _TURN_SECONDS
            while True:
                start = time.perf_counter()
                call()
                end = time.perf_counter()
                best[name] = min(best[name], end - start)
                if end > turn:
                    break
        if time.perf_counter() > stop:
            return best
