"""A program that measures the time of its calls in addition to the engine's counters of its nodes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Protocol

from anylayer.engines import Counter, Program
from anylayer.graph import Graph
from anylayer.network import Array


class Meter(Protocol):
    """A reader of an engine's counters. `graph` is the graph that the engine was given."""

    graph: Graph

    def reset(self, runs: int) -> None:
        """Discard the measurements up to now. runs: the number of calls up to now."""

    def counters(self, times: Sequence[float]) -> tuple[list[Counter], float]:
        """Return the counters since `reset`, and the mean seconds of the calls that they were measured in.

        times: the seconds of all calls since `reset`.
        """


class TimedProgram:
    """A program that measures its nodes: see engines.CountedProgram."""

    def __init__(self, program: Program, meter: Meter) -> None:
        self._program, self._meter = program, meter
        self.graph = meter.graph
        self._skipped = 0
        self._times: list[float] = []

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        start = time.perf_counter()
        results = self._program(inputs, out)
        self._times.append(time.perf_counter() - start)
        return results

    def reset(self) -> None:
        self._skipped = len(self._times)
        self._meter.reset(self._skipped)

    def counters(self) -> tuple[list[Counter], float]:
        return self._meter.counters(self._times[self._skipped :])
