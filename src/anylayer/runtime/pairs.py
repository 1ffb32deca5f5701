"""Plans whose graphs run on two engines: one for the layers with weights, another for the selection of boxes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from anylayer.compile.noise import plan_noise
from anylayer.compile.plan import GraphStep, Plan
from anylayer.compile.segments import EnginePart, Segment, segments, with_parts
from anylayer.engines import Engine, Program, suits
from anylayer.errors import EngineError
from anylayer.network import Array
from anylayer.optimize.simplify import simplify
from anylayer.runtime.choice import EngineRun, trusted
from anylayer.runtime.run import PlanRunner
from anylayer.runtime.timing import timed_in_turns

_GAIN = 0.99
"""A plan with two engines must take less than this share of the best engine's time."""
_PROMISED_GAIN = 0.97
"""A plan with two engines is compiled if its segments took less than this share of the best engine's time. To
compile and to measure it takes 0.9 s for MobileNet-SSD, where 0.98 were promised in vain."""
_CUT_SECONDS = 10e-6
"""The time, in seconds, that the call of another engine takes."""
_MAX_WEIGHTS = 1 << 28
"""Bytes of weights. A network with more is not cut, because they are held once more while it is measured."""
_TRIAL_SECONDS = 0.2
"""The mean time, in seconds, for which a segment is measured on each engine."""


@dataclass(frozen=True, slots=True)
class Split:
    """A network as parts that run on engines: the runner, the parts, and the measured seconds of a call."""

    runner: PlanRunner
    parts: Sequence[EnginePart]
    seconds: float

    @property
    def name(self) -> str:
        """The engines in computing order, as one word: "ENGINE+ENGINE"."""
        return "+".join(dict.fromkeys(part.engine for part in self.parts))


@dataclass(frozen=True, slots=True)
class PairFinder:
    """Finds a plan with two engines that is faster than each engine alone.

    `engines` compute the whole network, in the seconds of `timings`. `specialists` are engines that do not
    compute it, but may compute parts. `make_runner` compiles a plan for an engine. `definition` is the network in
    NumPy, which decides where two plans compute different outputs.
    """

    engines: Mapping[str, Engine]
    specialists: Mapping[str, Engine]
    timings: Mapping[str, float]
    threads: int | None
    exact: bool
    make_runner: Callable[[Plan, str], PlanRunner]
    definition: EngineRun

    def faster(self, plan: Plan, best: Split) -> Split | None:
        """Return a plan on two engines that is faster than `best`, the plan on the fastest engine, or None."""
        parts = self._promising(plan, best.name)
        return self.checked(plan, [parts], best) if parts is not None else None

    def checked(self, plan: Plan, candidates: Sequence[Sequence[EnginePart]], best: Split) -> Split | None:
        """Return the fastest plan in these parts, if it computes the same as `best` faster; else None."""
        arrays = plan_noise(plan)
        runners = [
            best.runner,
            *(self.make_runner(with_parts(plan, parts), parts[0].engine) for parts in candidates),
        ]
        runs = {str(i): partial(runner, out={}) for i, runner in enumerate(runners)}
        right = ["0", *(name for name in trusted(runs, arrays, self.definition)[0] if name != "0")]
        seconds = timed_in_turns({name: partial(runs[name], arrays) for name in right})
        name = min(seconds, key=seconds.__getitem__)
        if seconds[name] >= _GAIN * seconds["0"]:
            return None
        return Split(runners[int(name)], candidates[int(name) - 1], best.seconds * seconds[name] / seconds["0"])

    def _promising(self, plan: Plan, best: str) -> list[EnginePart] | None:
        """Return the parts of the fastest two engines by the times of the network's segments, or None if no pair
        of engines is expected to be faster than `best`. An engine's time for the layers with weights is its time
        for the whole network minus its times for the other segments.
        """
        pieces = segments(plan)
        heavy = [piece for piece in pieces if piece.heavy]
        steps = [*with_parts(plan, [EnginePart(best, piece.nodes) for piece in pieces]).steps]
        if (
            not heavy
            or len(heavy) == len(pieces)
            or len(steps) != len(pieces)
            or constant_bytes(plan) > _MAX_WEIGHTS
        ):
            return None
        graphs = [(step, piece) for step, piece in zip(steps, pieces) if isinstance(step, GraphStep)]
        suited = {
            name: engine
            for name, engine in self.specialists.items()
            if suits(engine, [step.graph for step, piece in graphs if piece.heavy])
        }
        if not suited and (len(self.engines) < 2 or not any(piece.selects for piece in pieces)):
            return None
        values = self._values(plan, best, graphs)
        light = self._seconds([step for step, piece in graphs if not piece.heavy], self.engines, values)
        bodies = {name: self.timings[name] - light[name] for name in self.engines if name in light}
        bodies.update(self._seconds([step for step, piece in graphs if piece.heavy], suited, values))
        cuts = _CUT_SECONDS * (len(pieces) - 1)
        totals = {(a, b): bodies[a] + light[b] + cuts for a in bodies for b in light if a != b}
        chosen = min(totals, key=totals.__getitem__, default=None)
        if chosen is None or totals[chosen] >= _PROMISED_GAIN * self.timings[best]:
            return None
        return [*_parts_of(pieces, *chosen)]

    def _values(self, plan: Plan, engine: str, graphs: Sequence[tuple[GraphStep, Segment]]) -> dict[str, Any]:
        """Run the segments on noise, and return the values between them."""
        values: dict[str, Any] = dict(zip(plan.inputs, plan_noise(plan)))
        for step, _ in graphs:
            program = self._program(step, engine, self.engines[engine])
            values.update(zip(step.outputs, program([values[name] for name in step.inputs])))
        return values

    def _seconds(
        self, steps: Sequence[GraphStep], engines: Mapping[str, Engine], values: Mapping[str, Array]
    ) -> dict[str, float]:
        """Return the seconds of the steps on each engine that can run all of them."""
        calls: dict[str, Callable[[], object]] = {}
        for name, engine in engines.items():
            with suppress(EngineError):
                programs = [self._program(step, name, engine) for step in steps]
                call = partial(_run, programs, [[values[name] for name in step.inputs] for step in steps])
                call()
                calls[name] = call
        return timed_in_turns(calls, _TRIAL_SECONDS) if calls else {}

    def _program(self, step: GraphStep, name: str, engine: Engine) -> Program:
        return engine.compile(simplify(step.graph, name, exact=self.exact), self.threads, "float32")


def _run(programs: Sequence[Program], inputs: Sequence[Sequence[Array]]) -> None:
    for program, arrays in zip(programs, inputs):
        program(arrays)


def constant_bytes(plan: Plan) -> int:
    """Return the bytes of the constants that a plan's graphs read."""
    constants = {v: v.const for graph in plan.graphs for o in graph.ops for v in o.inputs if v is not None}
    return sum(array.nbytes for array in constants.values() if array is not None)


def _parts_of(pieces: Sequence[Segment], heavy: str, light: str) -> Iterator[EnginePart]:
    """Yield the parts of the two engines. Consecutive segments on the same engine become one part."""
    for is_heavy, group in groupby(pieces, key=lambda piece: piece.heavy):
        yield EnginePart(heavy if is_heavy else light, tuple(i for piece in group for i in piece.nodes))
