"""Plans in which custom layers run on an engine that compiles code for them, where they were measured faster."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from anylayer.compile.plan import GraphStep, Plan, concatenated
from anylayer.compile.segments import EnginePart, nodes_with_operators, refined
from anylayer.engines import Engine, layer_engines
from anylayer.errors import EngineError
from anylayer.network import TensorType
from anylayer.numerics import uniform_noise
from anylayer.optimize.simplify import simplify
from anylayer.runtime.pairs import PairFinder, Split
from anylayer.runtime.run import PlanRunner
from anylayer.runtime.timing import timed_in_turns
from anylayer.source import TracedNode

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
        found = dict(_moved(plan, parts, s, times) for parts, s in [*splits, (best.parts, best.seconds)])
        promising = [parts for parts, seconds in found.items() if seconds < best.seconds]
        return self.finder.checked(plan, promising, best) if promising else None

    def _times(self, plan: Plan, network: float) -> dict[int, Times]:
        """Return the seconds of the custom layers that may be worth compiling, by their indices in `Plan.nodes`.

        network: the seconds of the network.
        """
        found: dict[int, Times] = {}
        fastest = min(self.finder.timings, key=self.finder.timings.__getitem__)
        for nodes in kinds_of_layers(plan):
            t = plan.nodes[nodes[0]]
            step = concatenated([t], set(t.node.outputs), plan.constants)
            first = self._seconds(t, step, {fastest: self.finder.engines[fastest]}, 0.0)
            if first and first[fastest] * len(nodes) > max(_SHARE * network, _CUT_SECONDS):
                engines = {**self.finder.engines, **layer_engines(step.graph)}
                found.update(dict.fromkeys(nodes, self._seconds(t, step, engines, _TRIAL_SECONDS)))
        return found

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


def _moved(
    plan: Plan, parts: Sequence[EnginePart], seconds: float, times: Mapping[int, Times]
) -> tuple[tuple[EnginePart, ...], float]:
    """Return parts and their seconds after each layer has moved to the engine on which it is fastest."""
    own = {i: part.engine for part in parts for i in part.nodes}
    gains: dict[int, float] = {}
    moved: dict[int, str] = {}
    for i, known in times.items():
        moved[i] = min(known, key=known.__getitem__)
        gains[i] = known.get(own[i], 0.0) - known[moved[i]] - _CUT_SECONDS
    found = refined(plan, parts, {i: name for i, name in moved.items() if gains[i] > 0})
    changed = [i for part in found for i in part.nodes if part.engine != own[i]]
    return tuple(found), seconds - sum(gains[i] for i in changed)


def kinds_of_layers(plan: Plan) -> list[list[int]]:
    """Return the custom layers that may be worth compiling, those of a kind together, the heaviest first."""
    found: dict[tuple[str, tuple[TensorType | None, ...]], list[int]] = {}
    work: dict[int, int] = {}
    for i in nodes_with_operators(plan):
        t = plan.nodes[i]
        if t.body is None or t.bound is None or t.bound.definition.built_in:
            continue
        shapes = [v.shape for op in t.body.ops for v in op.outputs]
        if all(isinstance(d, int) for shape in shapes for d in shape):
            work[i] = sum(math.prod(map(int, shape)) for shape in shapes)
            if work[i] >= _HEAVY or len(t.body.ops) >= _LONG:
                found.setdefault((t.node.type, tuple(t.inputs)), []).append(i)
    kinds = sorted(found.values(), key=lambda nodes: -sum(work[i] for i in nodes))
    return [nodes for nodes in kinds if len(nodes) <= _MAX_LAYERS][:_MAX_KINDS]
