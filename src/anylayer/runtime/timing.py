"""Measure the alternatives of engine "auto" by interleaved calls."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress

from anylayer.compile.plan import Plan
from anylayer.errors import EngineError
from anylayer.libraries.machine import busy_seconds
from anylayer.libraries.stdout import redirected_stdout
from anylayer.network import Array, TensorType
from anylayer.numerics import uniform_noise

_TRIAL_SECONDS = 0.3
"""The longest mean time, in seconds, for which each call is measured."""
_SPIN_SECONDS = 0.06
"""ONNX Runtime's threads spin this long after a call (2**20 pauses of some 50 cycles). An engine that is measured
meanwhile takes twice its time."""
_IDLE_SECONDS = 0.004
"""Threads that use less than a tenth of this time while this thread sleeps, twice in succession, do not spin."""
_TURN_SECONDS = 0.03
"""The time, in seconds, for which a call is measured before the next call takes its turn."""
_BEHIND = {2: 1.3, 3: 1.15, 4: 1.05}
"""Number of turns -> a call that takes this many times as long as the fastest one, in each of them, is out."""
_EQUAL = 1.02
"""Calls whose times differ by less are equally fast, if four turns have not separated them."""
_LONG_SECONDS = 0.1
"""A call that takes longer, in seconds, is timed once per turn: to fill the caches takes a hundredth of it."""
_SIZES_PER_TURN = 8
"""The largest number of new sizes at which a call is measured before the next call takes its turn."""


def quiet_runs(plan: Plan) -> AbstractContextManager[None]:
    """Return a context for runs that are only measured: what layers outside of engines print is dropped."""
    return redirected_stdout(drop=True) if plan.native or plan.host_calls else nullcontext()


def others_busy() -> Callable[[], float]:
    """Return a function that returns how many processors other programs have occupied since, or 0."""
    start, wall, own_seconds = busy_seconds(), time.perf_counter(), time.process_time()

    def share() -> float:
        now = busy_seconds()
        if start is None or now is None:
            return 0.0
        others = (now - start) - (time.process_time() - own_seconds)
        return max(others, 0.0) / max(time.perf_counter() - wall, 1e-9)

    return share


def timed_in_turns(
    calls: Mapping[str, Callable[[], object]],
    seconds: float = _TRIAL_SECONDS,
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, float]:
    """Return the seconds of the fastest run of each call. The calls take turns, every other time in reverse order:
    a call that follows itself need not wait, and finds its data in the caches.

    A call is out once it was clearly slower than the fastest one in each turn. The measurement ends when one call
    is left, or when those that are left take the same time.

    seconds: how long each call is measured at most, on average. clock: measures a call. It is not the processor's
    time even where other programs run, because this counts threads that wait in a loop, as ONNX Runtime's do.
    """
    turns: dict[str, list[float]] = {name: [] for name in calls}
    racing, last = [*calls], ""
    stop = time.perf_counter() + seconds * len(calls)
    while racing:
        for name in racing:
            turns[name].append(_turn(calls[name], clock, follows=name == last))
            last = name
        racing = _rivals({name: turns[name] for name in racing})[::-1] if time.perf_counter() < stop else []
    return {name: min(times) for name, times in turns.items()}


def _wait_for_spinning_threads() -> None:
    """Sleep until the other threads of this process are idle, at most _SPIN_SECONDS."""
    stop, idle = time.perf_counter() + _SPIN_SECONDS, 0
    while idle < 2 and time.perf_counter() < stop:
        before = time.process_time()
        time.sleep(_IDLE_SECONDS)
        idle = idle + 1 if time.process_time() - before < _IDLE_SECONDS / 10 else 0


def _turn(call: Callable[[], object], clock: Callable[[], float], follows: bool) -> float:
    """Run a call for a turn. Return the seconds of its fastest run. follows: whether it had the last turn."""
    if not follows:
        _wait_for_spinning_threads()
        start = clock()
        call()  # is not timed, because the caches hold another call's data
        if (cold := clock() - start) > _LONG_SECONDS:
            return cold
    best = math.inf
    turn = time.perf_counter() + _TURN_SECONDS
    while True:
        start = clock()
        call()
        best = min(best, clock() - start)
        if time.perf_counter() > turn:
            return best


def fastest_run(call: Callable[[], object], seconds: float, least: int) -> float:
    """Return the seconds of the fastest of the runs that begin within `seconds`, at least `least` of them."""
    best, stop, runs = math.inf, time.perf_counter() + seconds, 0
    while runs < least or time.perf_counter() < stop:
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        runs += 1
    return best


def _rivals(turns: Mapping[str, Sequence[float]]) -> list[str]:
    """Return the calls that may be the fastest and need another turn to tell. turns: the seconds of each turn."""
    least = min(turns.values(), key=min)
    behind = _BEHIND.get(len(least), 0.0 if len(least) < min(_BEHIND) else min(_BEHIND.values()))
    left = [n for n, times in turns.items() if not behind or any(t <= behind * u for t, u in zip(times, least))]
    equal = all(min(turns[name]) <= _EQUAL * min(least) for name in left)
    return [] if len(left) == 1 or (equal and len(least) >= max(_BEHIND)) else left


def timed_at_new_sizes(
    calls: Mapping[str, Callable[[Sequence[Array]], object]],
    known_types: Sequence[TensorType],
    new: Sequence[Sequence[TensorType]],
) -> dict[str, float]:
    """Return the seconds per value of the inputs that each call takes at a size for the first time.

    They are the lower quartile over the sizes: other processes can slow down most of the calls.

    known_types: types of inputs for calls before the timed ones. new: types of inputs of sizes that have not run.
    The time of a call that raises an EngineError is infinite at this size. The calls take turns. Each has at least
    one turn, and no round of turns starts after 0.5 seconds per call.
    """
    measured: dict[str, list[float]] = {name: [] for name in calls}
    stop = time.perf_counter() + _TRIAL_SECONDS * len(calls)
    while True:
        for name, call in calls.items():
            _wait_for_spinning_threads()
            with suppress(EngineError):
                call(uniform_noise(known_types))  # is not timed, because the caches hold another call's data
            turn = time.perf_counter() + _TURN_SECONDS
            for types in new[len(measured[name]) :][:_SIZES_PER_TURN]:
                arrays = uniform_noise(types)
                start = time.perf_counter()
                try:
                    call(arrays)
                    seconds = time.perf_counter() - start
                except EngineError:
                    seconds = math.inf
                measured[name].append(seconds / max(sum(x.size for x in arrays), 1))
                if time.perf_counter() > turn:
                    break
        if time.perf_counter() > stop or all(len(f) == len(new) for f in measured.values()):
            return {name: sorted(f)[len(f) // 4] for name, f in measured.items()}
