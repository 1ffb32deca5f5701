"""The measurement of programs at sizes that are new to them, with a clock that only calls and waits advance."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
import pytest

from anylayer.errors import EngineError
from anylayer.network import Array, TensorType
from anylayer.runtime import timing

Call = Callable[[Sequence[Array]], object]


class Clock:
    """A clock in place of the module `time`."""

    def __init__(self) -> None:
        self.now = self.spun = self.spins_until = 0.0

    def perf_counter(self) -> float:
        return self.now

    def process_time(self) -> float:
        return self.spun

    def sleep(self, seconds: float) -> None:
        self.spun += min(seconds, max(self.spins_until - self.now, 0.0))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(timing, "time", clock)
    monkeypatch.setattr(timing, "_TURN_SECONDS", 0.03)
    monkeypatch.setattr(timing, "_EQUAL", 1.02)
    return clock


def images(*widths: int) -> list[list[TensorType]]:
    return [[TensorType.of((10, width), np.float32)] for width in widths]


def program(clock: Clock, per_value: float, new_size: float = 0.0) -> tuple[Call, list[int]]:
    """Return a program that takes some time per value, and more at a new size, and the widths of its calls."""
    widths: list[int] = []

    def call(arrays: Sequence[Array]) -> None:
        (x,) = arrays
        clock.now += per_value * x.size + new_size * (x.shape[1] not in widths)
        widths.append(x.shape[1])

    return call, widths


def test_cost_of_a_new_size_is_measured_without_that_of_the_first_call(clock: Clock) -> None:
    generating, _ = program(clock, 1e-5, 5e-3)
    steady, widths = program(clock, 2e-5)
    slow_start = [1.0]

    def starting(arrays: Sequence[Array]) -> None:
        clock.now += slow_start.pop() if slow_start else 0.0
        steady(arrays)

    (known,), new = images(10), images(20, 21, 19, 22, 18, 23, 17, 24, 16, 25)
    found = timing.timed_at_new_sizes({"generating": generating, "steady": starting}, known, new)
    assert found["steady"] == pytest.approx(2e-5)
    assert found["generating"] == pytest.approx(1e-5 + 5e-3 / 200, rel=0.1)
    assert widths == [10, 20, 21, 19, 22, 18, 23, 17, 24]  # the slow start has used up the time


def test_programs_take_turns_at_all_sizes(clock: Clock) -> None:
    calls = [program(clock, 1e-5) for _ in range(2)]
    order = [20, 21, 19, 22, 18, 23, 17, 24, 16, 25]
    (known,), new = images(10), images(*order)
    timing.timed_at_new_sizes({str(i): call for i, (call, _) in enumerate(calls)}, known, new)
    assert [widths for _, widths in calls] == [[10, *order[:8], 10, *order[8:]]] * 2
    assert clock.now < 0.5


def test_slow_programs_run_at_one_new_size(clock: Clock) -> None:
    calls = [program(clock, 0.01) for _ in range(2)]
    (known,), new = images(10), images(20, 21, 19)
    timing.timed_at_new_sizes({str(i): call for i, (call, _) in enumerate(calls)}, known, new)
    assert [widths for _, widths in calls] == [[10, 20]] * 2


def test_program_that_refuses_new_sizes_is_the_slowest(clock: Clock) -> None:
    works, _ = program(clock, 1.0)

    def refuses(arrays: Sequence[Array]) -> None:
        raise EngineError("the size is refused")

    (known,), new = images(10), images(20, 21)
    found = timing.timed_at_new_sizes({"refuses": refuses, "works": works}, known, new)
    assert found["refuses"] == math.inf and found["works"] == pytest.approx(1.0)


def test_calls_that_other_processes_slow_down_are_ignored(clock: Clock) -> None:
    steady, _ = program(clock, 2e-5)
    delays = [0.0, 0.0, 0.1, 0.1, 0.0, 0.1, 0.0, 0.0, 0.1, 0.1, 0.1, 0.1, 0.1]

    def delayed(arrays: Sequence[Array]) -> None:
        clock.now += delays.pop(0)
        steady(arrays)

    (known,), new = images(10), images(20, 21, 19, 22, 18, 23, 17, 24, 16)
    calls: dict[str, Call] = {"delayed": delayed, "other": program(clock, 3e-5)[0]}
    assert timing.timed_at_new_sizes(calls, known, new)["delayed"] == pytest.approx(2e-5)


@pytest.mark.parametrize(
    ("times", "turns"),
    [
        ({"a": 1e-3, "b": 2e-3}, {"a": 2, "b": 2}),
        ({"a": 1e-3, "b": 1.2e-3}, {"a": 3, "b": 3}),
        ({"a": 1e-3, "b": 1.01e-3}, {"a": 4, "b": 4}),
        ({"a": 1e-3, "b": 1.01e-3, "c": 5e-3}, {"a": 4, "b": 4, "c": 2}),
        ({"a": 1e-3}, {"a": 1}),
    ],
)
def test_measurement_ends_when_the_fastest_is_clear(
    clock: Clock, times: dict[str, float], turns: dict[str, int]
) -> None:
    counts = dict.fromkeys(times, 0)

    def call(name: str) -> Callable[[], None]:
        def run() -> None:
            clock.now += times[name]
            counts[name] += 1

        return run

    measured = timing.timed_in_turns({name: call(name) for name in times}, clock=clock.perf_counter)
    assert measured == pytest.approx(times)
    assert {name: int(n * times[name] / timing._TURN_SECONDS) for name, n in counts.items()} == turns


def test_one_slow_turn_does_not_exclude_a_call(clock: Clock) -> None:
    """Another program disturbs the first turn of "a", which is the faster one."""

    def a() -> None:
        clock.now += 9e-3 if clock.now < 0.06 else 1e-3

    def b() -> None:
        clock.now += 1.5e-3

    measured = timing.timed_in_turns({"a": a, "b": b}, clock=clock.perf_counter)
    assert measured == pytest.approx({"a": 1e-3, "b": 1.5e-3})


@pytest.mark.parametrize("spins", [0.02, 0.04])
def test_turn_begins_after_threads_have_stopped_spinning(clock: Clock, spins: float) -> None:
    starts: list[float] = []

    def spinning() -> None:
        clock.now += 1e-3
        clock.spins_until = clock.now + spins

    def other() -> None:
        starts.append(clock.now - clock.spins_until)
        clock.now += 1.2e-3

    timing.timed_in_turns({"spinning": spinning, "other": other}, clock=clock.perf_counter)
    assert min(starts) >= 0


@pytest.mark.parametrize(("seconds", "runs"), [(0.05, 2), (0.2, 1)])
def test_call_is_measured_once_where_there_is_no_time(clock: Clock, seconds: float, runs: int) -> None:
    """A call that is not long runs once more, to fill the caches."""
    calls: list[float] = []

    def call() -> None:
        clock.now += seconds
        calls.append(clock.now)

    assert timing.timed_in_turns({"a": call, "b": call}, 0, clock.perf_counter) == pytest.approx(
        {"a": seconds, "b": seconds}
    )
    assert len(calls) == 2 * runs
