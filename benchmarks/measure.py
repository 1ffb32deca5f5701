"""Measure contestants in turns, round by round, each turn between two calibrations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from benchmarks.guard import Guard, Sample, best_fma, figure, mode, plain
from benchmarks.processes import Worker, WorkerError

WARM_SECONDS, WARM_RUNS = 0.02, 2
SECONDS, RUNS = 0.06, 3
"""Seconds. A turn is short, because the machine changes its mode about every half second."""
HOPELESS = 1.15
"""A way of calling an engine that is this many times slower than the engine's best in two rounds is not measured
further.
"""
PATIENCE = 5.0
"""Seconds that one row may wait for the machine to be in fast mode."""


@dataclass
class Contestant:
    """One way (`call`) of calling what a table's `column` names."""

    column: str
    call: str
    worker: Worker
    samples: list[Sample] = field(default_factory=list)
    error: str = ""
    processor: bool = False


def measure(contestants: Sequence[Contestant], guard: Guard, rounds: int, short: bool = False) -> None:
    """Fill in the contestants' samples: `rounds` turns each, and up to half as many again for a contestant that
    has fewer than three undisturbed turns. With `short`, for calls that take a good part of a second, a turn has
    fewer calls.
    """
    running = list(contestants)
    patience = PATIENCE
    for number in range(rounds + (rounds + 1) // 2):
        if number >= rounds and all(_settled(c, rounds) for c in running):
            break
        for contestant in rotated(running, number):
            waited = guard.waited
            try:
                contestant.samples.append(guard.sample(lambda c=contestant: _turn(c, short), patience))
            except WorkerError as error:
                contestant.error = str(error)
            patience = max(0.0, patience - (guard.waited - waited))
        running = [c for c in running if not c.error]
        if number >= 1:
            running = hopeful(running, best_fma(s for c in contestants for s in c.samples))


def _turn(contestant: Contestant, short: bool) -> dict[str, Any]:
    return contestant.worker.ask(
        do="time",
        call=contestant.call,
        warm=WARM_SECONDS,
        warm_runs=1 if short else WARM_RUNS,
        seconds=SECONDS,
        runs=2 if short else RUNS,
        processor=contestant.processor,
    )


def rotated(items: Sequence[Contestant], by: int) -> list[Contestant]:
    """Return the items, beginning with another one in each round."""
    start = by % len(items) if items else 0
    return [*items[start:], *items[:start]]


def hopeful(running: Sequence[Contestant], fma: float) -> list[Contestant]:
    """Return the contestants that were not much slower than the fastest way of calling the same engine in both of
    the last two rounds. Disturbed rounds are ignored.
    """

    def behind(contestant: Contestant, place: int) -> bool:
        same = [c.samples[place] for c in running if c.column == contestant.column]
        if any(mode(sample, fma) == "disturbed" for sample in same):
            return False
        return contestant.samples[place].seconds > HOPELESS * min(sample.seconds for sample in same)

    return [c for c in running if not (behind(c, -1) and behind(c, -2))]


def _settled(contestant: Contestant, rounds: int) -> bool:
    best = best_fma(contestant.samples)
    return sum(mode(s, best) == "fast" for s in contestant.samples) >= min(3, rounds)


def columns(contestants: Sequence[Contestant]) -> dict[str, dict[str, Any]]:
    """Return, for each column, its figure (of its best way of calling) and the samples of every way, as JSON
    values.
    """
    best = best_fma(s for c in contestants for s in c.samples)
    result: dict[str, dict[str, Any]] = {}
    for contestant in contestants:
        found = figure(contestant.samples, best)
        if contestant.error:
            result.setdefault(contestant.column, {"calls": {}}).setdefault("error", contestant.error)
        if contestant.error or found is None:
            continue
        entry = result.setdefault(contestant.column, {"calls": {}})
        entry["calls"][contestant.call] = {
            "seconds": found.seconds,
            "low": found.low,
            "high": found.high,
            "mode": found.mode,
            "kept": found.samples,
            "discarded": found.discarded,
            "samples": plain(contestant.samples, best),
        }
    for entry in result.values():
        if not entry["calls"]:
            continue
        entry.pop("error", None)
        entry["call"] = min(entry["calls"], key=lambda c: _rank(entry["calls"][c]))
        chosen = entry["calls"][entry["call"]]
        entry.update({key: chosen[key] for key in ("seconds", "mode", "kept", "discarded")})
    return result


def _rank(call: dict[str, Any]) -> tuple[int, float]:
    return ("fast", "slow", "disturbed").index(call["mode"]), call["seconds"]
