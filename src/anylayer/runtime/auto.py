"""Engine "auto": measure the installed engines, and take the fastest one, or several together: layers with weights
and the selection of boxes (pairs.py), or custom layers, on an engine that compiles code for them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from anylayer.compile.noise import plan_noise
from anylayer.compile.plan import GraphStep, Plan, concatenated
from anylayer.compile.segments import EnginePart, nodes_with_operators, refine, with_parts
from anylayer.engines import Engine, installed, layer_engines, nothing_on
from anylayer.errors import EngineError, warn
from anylayer.network import TensorType
from anylayer.numerics import uniform_noise
from anylayer.optimize.simplify import simplify
from anylayer.runtime.choice import trusted
from anylayer.runtime.compilation import Compilation, require_precision
from anylayer.runtime.kept import Choice, keep_choice, key_of_choice, load_choice
from anylayer.runtime.pairs import PairFinder, Split
from anylayer.runtime.run import PlanRunner
from anylayer.runtime.timing import others_busy, quiet_runs, timed_in_turns
from anylayer.source import TracedNode


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
        if len(runners) > 1 or kinds_of_layers(plan):
            timings = _measure(runners, plan)
        engine = min(timings, key=timings.__getitem__) if timings else next(iter(runners))
        return _divide(compilation, plan, runners, Fastest(runners[engine], engine, (), timings), tried)


def _runners(compilation: Compilation, plan: Plan) -> dict[str, PlanRunner]:
    """Compile the plan on each installed engine that suits its graphs."""
    runners: dict[str, PlanRunner] = {}
    refusals: list[EngineError] = []
    for name, engine in installed(compilation.device).items():
        if not (engine.GENERAL if compilation.exact else engine.suits(plan.graphs)):
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
    compilation: Compilation, plan: Plan, runners: Mapping[str, PlanRunner], alone: Fastest, tried: set[str]
) -> Fastest:
    """Return the fastest engine, `alone`, or several engines that are faster together. tried: the engines that can
    run the whole network, even if their outputs are wrong.
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
    best, parts = fastest_split(finder, plan, alone.runner, alone.engine, compilation.precision == "float32")
    if best.runner is alone.runner:
        return replace(alone, parts=parts)
    return Fastest(best.runner, alone.engine, parts, {**alone.timings, best.name: best.seconds}, best.parts)


def in_parts(compilation: Compilation, plan: Plan, parts: Sequence[EnginePart], engine: str) -> PlanRunner:
    """Compile a plan in the parts that were the fastest before, if there are any. engine: that of other graphs."""
    return compilation.runner(with_parts(plan, parts) if parts else plan, engine)


_QUIET = 0.3
"""A choice is kept if other programs occupied fewer processors while it was made."""
_HEAVY = 1 << 17
"""A layer is tried if its operators compute at least this many elements in total: each operator of a trace reads
and writes memory, which compiled loops avoid."""
_LONG = 24
"""A layer is tried if it has at least this many operators. An engine needs a microsecond or more for each."""
_MAX_KINDS = 3
"""The largest number of kinds of layers (a type, with the types of its inputs) that are tried per network. To
compile a layer takes one to three seconds the first time."""
_MAX_LAYERS = 8
"""The largest number of layers of a kind that is tried. Each of them may have weights in its code."""
_SHARE = 0.05
"""A layer that takes less than this share of the network's time is not compiled."""
_CUT_SECONDS = 20e-6
"""The time, in seconds, that the two calls of engines around a layer take."""
_TRIAL_SECONDS = 0.1
"""The mean time, in seconds, for which a layer is measured on each engine."""


Times = Mapping[str, float]
"""Engine -> the seconds that a layer takes on it."""


def fastest_split(
    finder: PairFinder, plan: Plan, alone: PlanRunner, engine: str, layers: bool
) -> tuple[Split, Sequence[EnginePart]]:
    """Return the fastest plan, and its parts for later shapes.

    Later shapes have no custom layers on engines that compile code for them, because this takes seconds for
    each set of shapes. alone: the plan on the fastest engine, `engine`. layers: whether custom layers may move.
    """
    best = Split(alone, [EnginePart(engine, nodes_with_operators(plan))], finder.timings[engine])
    parts: Sequence[EnginePart] = []
    with suppress(EngineError):
        pair = finder.faster(plan, best) if len(finder.engines) > 1 else None
        if pair is not None:
            best, parts = pair, pair.parts
    with suppress(EngineError):
        if layers and not finder.exact:
            best = LayerFinder(finder).faster(plan, best) or best
    return best, parts


@dataclass(frozen=True, slots=True)
class LayerFinder:
    """Finds custom layers that are faster on the engines that compile code for single layers.

    `finder` has the engines of the other layers.
    """

    finder: PairFinder

    def faster(self, plan: Plan, best: Split) -> Split | None:
        """Return a plan that is faster than `best`, in which custom layers are parts of their own; None where
        there is none."""
        times = self._times(plan, best.seconds)
        if not times:
            return None
        nodes = nodes_with_operators(plan)
        splits = [((EnginePart(name, nodes),), self.finder.timings[name]) for name in self.finder.engines]
        by_parts = dict(_move_layers(plan, parts, s, times) for parts, s in [*splits, (best.parts, best.seconds)])
        promising = [parts for parts, seconds in by_parts.items() if seconds < best.seconds]
        return self.finder.checked(plan, promising, best) if promising else None

    def _times(self, plan: Plan, network: float) -> dict[int, Times]:
        """Return the seconds of the custom layers that may be worth compiling, by their indices in `Plan.nodes`.

        network: the seconds of the network.
        """
        times: dict[int, Times] = {}
        fastest = min(self.finder.timings, key=self.finder.timings.__getitem__)
        for nodes in kinds_of_layers(plan):
            t = plan.nodes[nodes[0]]
            step = concatenated([t], set(t.node.outputs), plan.constants)
            first = self._seconds(t, step, {fastest: self.finder.engines[fastest]}, 0.0)
            if first and first[fastest] * len(nodes) > max(_SHARE * network, _CUT_SECONDS):
                engines = {**self.finder.engines, **layer_engines(step.graph)}
                times.update(dict.fromkeys(nodes, self._seconds(t, step, engines, _TRIAL_SECONDS)))
        return times

    def _seconds(self, t: TracedNode, step: GraphStep, engines: Mapping[str, Engine], trial: float) -> Times:
        """Return the seconds of a layer on each engine that takes it, on noise. trial: see timed_in_turns."""
        types = dict(zip(t.node.inputs, t.inputs))
        arrays = uniform_noise(kind for name in step.inputs if (kind := types[name]) is not None)
        calls = {}
        for name, engine in engines.items():
            with suppress(EngineError):
                program = engine.compile(simplify(step.graph, name), self.finder.threads, "float32")
                program(arrays)
                calls[name] = partial(program, arrays)
        return timed_in_turns(calls, trial) if calls else {}


def _move_layers(
    plan: Plan, parts: Sequence[EnginePart], seconds: float, times: Mapping[int, Times]
) -> tuple[tuple[EnginePart, ...], float]:
    """Return parts and their seconds after each layer has moved to the engine on which it is fastest."""
    engine_of = {i: part.engine for part in parts for i in part.nodes}
    gains: dict[int, float] = {}
    moved: dict[int, str] = {}
    for i, seconds_on in times.items():
        moved[i] = min(seconds_on, key=seconds_on.__getitem__)
        gains[i] = seconds_on.get(engine_of[i], 0.0) - seconds_on[moved[i]] - _CUT_SECONDS
    new_parts = refine(plan, parts, {i: name for i, name in moved.items() if gains[i] > 0})
    changed = [i for part in new_parts for i in part.nodes if part.engine != engine_of[i]]
    return tuple(new_parts), seconds - sum(gains[i] for i in changed)


def kinds_of_layers(plan: Plan) -> list[list[int]]:
    """Return the custom layers that may be worth compiling, those of a kind together, the heaviest first."""
    by_kind: dict[tuple[str, tuple[TensorType | None, ...]], list[int]] = {}
    work: dict[int, int] = {}
    for i in nodes_with_operators(plan):
        t = plan.nodes[i]
        if t.body is None or t.bound is None or t.bound.definition.built_in:
            continue
        shapes = [v.shape for op in t.body.ops for v in op.outputs]
        if all(isinstance(d, int) for shape in shapes for d in shape):
            work[i] = sum(math.prod(map(int, shape)) for shape in shapes)
            if work[i] >= _HEAVY or len(t.body.ops) >= _LONG:
                by_kind.setdefault((t.node.type, tuple(t.inputs)), []).append(i)
    kinds = sorted(by_kind.values(), key=lambda nodes: -sum(work[i] for i in nodes))
    return [nodes for nodes in kinds if len(nodes) <= _MAX_LAYERS][:_MAX_KINDS]
