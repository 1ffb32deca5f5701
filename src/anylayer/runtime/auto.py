"""Engine "auto": measure the installed engines, and take the fastest one, or several together: layers with weights
and the selection of boxes (pairs.py), or custom layers and other regions, on an engine that compiles code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from anylayer.compile.noise import plan_noise
from anylayer.compile.plan import GraphStep, Plan, concatenated
from anylayer.compile.regions import Region, Regions, find_regions, kinds_of_regions, outputs_of
from anylayer.compile.segments import EnginePart, nodes_with_operators, refine, with_parts
from anylayer.engines import Engine, installed, layer_engines, nothing_on, suits
from anylayer.errors import EngineError, warn
from anylayer.numerics import uniform_noise
from anylayer.optimize.simplify import simplify
from anylayer.runtime.choice import trusted
from anylayer.runtime.compilation import Compilation, require_precision
from anylayer.runtime.kept import Choice, keep_choice, key_of_choice, load_choice
from anylayer.runtime.pairs import PairFinder, Split
from anylayer.runtime.run import PlanRunner
from anylayer.runtime.timing import others_busy, quiet_runs, timed_in_turns


@dataclass(frozen=True, slots=True)
class Fastest:
    """The fastest way to run a network: the engine, or the one that is fastest alone where several run its parts.

    `runs` are the parts of the runner where several do, and `parts` those for later shapes. `timings` are the
    measured seconds per call, by engine.
    """

    runner: PlanRunner
    engine: str
    parts: Sequence[EnginePart] = ()
    timings: dict[str, float] = field(default_factory=dict)
    runs: Sequence[EnginePart] = ()


def fastest(compilation: Compilation, plan: Plan) -> Fastest:
    """Compile on the installed engines, and return the fastest one whose outputs are right, or several together.
    What an earlier process has measured for the same network is not measured again. What was measured beside other
    programs is not kept.

    Raises the first EngineError if all engines refuse the network.
    """
    key = key_of_choice(compilation, plan)
    choice = load_choice(key, plan) if key is not None else None
    if choice is not None:
        with suppress(EngineError):
            runner = in_parts(compilation, plan, choice.parts, choice.engine)
            return Fastest(runner, choice.engine, choice.later, dict(choice.timings), choice.parts)
    others = others_busy()
    measured = _measured_fastest(compilation, plan)
    if key is not None and measured.timings and others() < _QUIET:
        shapes = ", ".join(f"{name} {kind}" for name, kind in plan.inputs.items())
        network = compilation.network.source
        keep_choice(key, Choice(network, shapes, measured.engine, measured.runs, measured.parts, measured.timings))
    return measured


def _measured_fastest(compilation: Compilation, plan: Plan) -> Fastest:
    """Compile on the installed engines, compare them, and measure them."""
    with quiet_runs(plan):
        runners = _runners(compilation, plan)
        tried = set(runners)
        if len(runners) > 1:
            runners = _trusted_runners(compilation, runners, plan)
        timings = {}
        regions = find_regions(plan)
        if len(runners) > 1 or kinds_of_regions(plan, regions.regions):
            timings = _measure(runners, plan)
        engine = min(timings, key=timings.__getitem__) if timings else next(iter(runners))
        return _divide(compilation, plan, runners, Fastest(runners[engine], engine, (), timings), tried, regions)


def _runners(compilation: Compilation, plan: Plan) -> dict[str, PlanRunner]:
    """Compile the plan on each installed engine that suits its graphs."""
    runners: dict[str, PlanRunner] = {}
    refusals: list[EngineError] = []
    for name, engine in installed(compilation.device).items():
        if not suits(engine, plan.graphs, exact=compilation.exact):
            continue
        try:
            require_precision(name, compilation.precision)
            runners[name] = compilation.runner(plan, name)
        except EngineError as error:
            refusals.append(error)
    if not runners:
        raise refusals[0] if refusals else EngineError(nothing_on(compilation.device))
    return runners


def _trusted_runners(
    compilation: Compilation, runners: Mapping[str, PlanRunner], plan: Plan
) -> dict[str, PlanRunner]:
    """Return the runners whose outputs on noise are correct. Warn about each of the others."""
    runs = {name: partial(runner, out={}) for name, runner in runners.items()}
    right, wrong = trusted(runs, plan_noise(plan), compilation.run_in_numpy)
    for name, how in wrong.items():
        warn(f"engine '{name}' is not used: {how}. anylayer verify --engine {name} names the layer", stacklevel=7)
    return {name: runners[name] for name in right}


def _measure(runners: Mapping[str, PlanRunner], plan: Plan) -> dict[str, float]:
    """Return the seconds of each runner's call on noise."""
    arrays = plan_noise(plan)
    return timed_in_turns({name: partial(runner, arrays, {}) for name, runner in runners.items()})


def _divide(
    compilation: Compilation,
    plan: Plan,
    runners: Mapping[str, PlanRunner],
    alone: Fastest,
    tried: set[str],
    regions: Regions,
) -> Fastest:
    """Return the fastest engine, `alone`, or several engines that are faster together. tried: the engines that can
    run the whole network, even if their outputs are wrong. regions: those of the plan.
    """
    here = installed("cpu") if compilation.device in ("", "cpu") else {}
    able = {name: here[name] for name in runners if name in here}
    if alone.engine not in able or not alone.timings:
        return alone
    others = {n: e for n, e in here.items() if not (e.GENERAL or compilation.exact or n in tried)}
    finder = PairFinder(
        able,
        others,
        alone.timings,
        compilation.threads,
        compilation.exact,
        compilation.runner,
        compilation.run_in_numpy,
    )
    movable = regions if compilation.precision == "float32" else None
    best, parts = fastest_split(finder, plan, alone.runner, alone.engine, movable)
    if best.runner is alone.runner:
        return replace(alone, parts=parts)
    return Fastest(best.runner, alone.engine, parts, {**alone.timings, best.name: best.seconds}, best.parts)


def in_parts(compilation: Compilation, plan: Plan, parts: Sequence[EnginePart], engine: str) -> PlanRunner:
    """Compile a plan in the parts that were the fastest before, if there are any. engine: that of other graphs."""
    return compilation.runner(with_parts(plan, parts) if parts else plan, engine)


_QUIET = 0.3
"""A choice is kept if other programs occupied fewer processors while it was made."""
_SHARE = 0.05
"""A region that takes less than this share of the network's time is not compiled."""
_SHORT_SECONDS = 7e-6
"""Regions that take less time, in seconds, are not compiled."""
_CUT_SECONDS = 20e-6
"""The time, in seconds, that the two calls of engines around a region take."""
_TRIAL_SECONDS = 0.1
"""The mean time, in seconds, for which a region is measured on each engine."""


Times = Mapping[str, float]
"""Engine -> the seconds that a region takes on it."""


def fastest_split(
    finder: PairFinder, plan: Plan, alone: PlanRunner, engine: str, regions: Regions | None
) -> tuple[Split, Sequence[EnginePart]]:
    """Return the fastest plan, and its parts for later shapes.

    Later shapes have no regions on engines that compile code for them, because this takes seconds for each set of
    shapes. alone: the plan on the fastest engine, `engine`. regions: those that may move.
    """
    best = Split(alone, [EnginePart(engine, nodes_with_operators(plan))], finder.timings[engine])
    parts: Sequence[EnginePart] = []
    with suppress(EngineError):
        pair = finder.faster(plan, best) if len(finder.engines) > 1 else None
        if pair is not None:
            best, parts = pair, pair.parts
    with suppress(EngineError):
        if regions is not None and not finder.exact:
            best = RegionFinder(finder, plan, regions).faster(best) or best
    return best, parts


@dataclass(frozen=True, slots=True)
class RegionFinder:
    """Finds regions of a plan (custom layers, built-in nodes) that are faster on the engines that compile code.

    `finder` has the engines of the other nodes.
    """

    finder: PairFinder
    plan: Plan
    regions: Regions

    def faster(self, best: Split) -> Split | None:
        """Return a plan that is faster than `best`, in which regions are parts of their own, or None."""
        times = self._times(best.seconds)
        if not times:
            return None
        nodes = nodes_with_operators(self.plan)
        splits = [((EnginePart(name, nodes),), self.finder.timings[name]) for name in self.finder.engines]
        by_parts = dict(self._move(parts, s, times) for parts, s in [*splits, (best.parts, best.seconds)])
        promising = [parts for parts, seconds in by_parts.items() if seconds < best.seconds]
        return self.finder.checked(self.plan, promising, best) if promising else None

    def _times(self, network: float) -> dict[Region, Times]:
        """Return the seconds of the regions that may be worth compiling. network: the seconds of the network."""
        times: dict[Region, Times] = {}
        fastest = min(self.finder.timings, key=self.finder.timings.__getitem__)
        for kind in kinds_of_regions(self.plan, self.regions.regions):
            nodes = [self.plan.nodes[i] for i in kind[0]]
            step = concatenated(nodes, outputs_of(self.plan, kind[0]), self.plan.constants)
            first = self._seconds(step, {fastest: self.finder.engines[fastest]}, 0.0)
            least = max(_SHARE * network, cut_seconds(self.plan, kind[0]), _SHORT_SECONDS)
            if first and first[fastest] * len(kind) > least:
                engines = {**self.finder.engines, **layer_engines(step.graph)}
                times.update(dict.fromkeys(kind, self._seconds(step, engines, _TRIAL_SECONDS)))
        return times

    def _seconds(self, step: GraphStep, engines: Mapping[str, Engine], trial: float) -> Times:
        """Return the seconds of a region on each engine that takes it, on noise. trial: see timed_in_turns."""
        arrays = uniform_noise(self.plan.types[name] for name in step.inputs)
        calls = {}
        for name, engine in engines.items():
            with suppress(EngineError):
                program = engine.compile(simplify(step.graph, name), self.finder.threads, "float32")
                program(arrays)
                calls[name] = partial(program, arrays)
        return timed_in_turns(calls, trial) if calls else {}

    def _move(
        self, parts: Sequence[EnginePart], seconds: float, times: Mapping[Region, Times]
    ) -> tuple[tuple[EnginePart, ...], float]:
        """Return parts and their seconds after each region has moved to the engine on which it is fastest."""
        engine_of = {i: part.engine for part in parts for i in part.nodes}
        gains: dict[Region, float] = {}
        moved: dict[int, str] = {}
        for region, seconds_on in times.items():
            here, name = {engine_of[i] for i in region}, min(seconds_on, key=seconds_on.__getitem__, default="")
            gain = seconds_on.get(min(here), 0.0) - seconds_on.get(name, 0.0) - cut_seconds(self.plan, region)
            if len(here) == 1 and gain > 0:
                gains[region] = gain
                moved.update(dict.fromkeys(region, name))
        new_parts = refine(self.plan, parts, moved, self.regions.rank)
        changed = {i for part in new_parts for i in part.nodes if part.engine != engine_of[i]}
        return tuple(new_parts), seconds - sum(gain for r, gain in gains.items() if not changed.isdisjoint(r))


def cut_seconds(plan: Plan, region: Region) -> float:
    """Return the seconds of the calls of engines around a region: 0 if the region is the whole network."""
    return 0.0 if len(region) == len(nodes_with_operators(plan)) else _CUT_SECONDS
