"""python -m benchmarks.cuts: measure what plans for two engines gain on the benchmarks' networks.

A network may be cut at one position in each twelfth of its multiply-adds, where the fewest bytes pass, and
around the selection of boxes. At each position, the plans with one engine before it and another one after it run
in turns with each engine alone, and the shortest time of each counts. The plan that is the fastest beside the
fastest engine ("first") is then measured with this engine once more ("again"), because the best of many
measurements is too good by chance. With one thread the processor's time counts, because other programs disturb it
less.
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import permutations
from pathlib import Path

import numpy as np

import anylayer
from anylayer.compile.plan import GraphStep, Plan
from anylayer.compile.segments import EnginePart, segments, with_parts
from anylayer.errors import AnyLayerError
from anylayer.graph.facts import multiply_adds
from anylayer.graph.sizes import is_static
from anylayer.numerics import uniform_noise
from anylayer.runtime.run import PlanRunner
from anylayer.runtime.timing import timed_in_turns
from benchmarks.networks import DETECTORS, NETWORKS, Source
from benchmarks.parts.networks import prepare

ENGINES = {"onnxruntime": "ORT", "openvino": "OpenVINO", "ncnn": "ncnn"}
_POSITIONS = 12
"""The network is divided into so many parts of equal multiply-adds, each with one position."""
_SECONDS, _LAST_SECONDS = 0.2, 2.0
"""The mean time, in seconds, for which a plan is measured at first, and in the end."""


def positions(plan: Plan) -> tuple[list[int], list[int]]:
    """Return the nodes of a plan's one graph, as their indices in an order in which they may be cut, and the
    positions of cuts in it."""
    pieces = segments(plan)
    order = [i for piece in pieces for i in piece.nodes]
    passed = _passed_bytes(plan, order)
    bodies = [plan.nodes[i].body for i in order]
    work = np.cumsum([multiply_adds(body.ops) for body in bodies if body is not None])
    places = {k: int(_POSITIONS * work[k - 1] / (work[-1] + 1)) for k in passed}
    found = {min((k for k in passed if places[k] == n), key=passed.__getitem__) for n in {*places.values()}}
    ends = np.cumsum([len(piece.nodes) for piece in pieces])[:-1]
    return order, sorted(found | {int(k) for k in ends})


def _passed_bytes(plan: Plan, order: Sequence[int]) -> dict[int, int]:
    """Return the bytes of the values that pass a cut, by its position. A position where the size of a value
    depends on data is left out."""
    last: dict[str, int] = {}
    for k, i in enumerate(order):
        last.update(dict.fromkeys(plan.nodes[i].node.inputs, k))
    found = dict.fromkeys(range(1, len(order)), 0)
    for k, i in enumerate(order):
        for name in {*plan.nodes[i].node.outputs} & {*last} - {*plan.constants}:
            kind = plan.types[name]
            for place in range(k + 1, last[name] + 1):
                if not is_static(kind.shape):
                    found.pop(place, None)
                elif place in found:
                    found[place] += math.prod(map(int, kind.shape)) * kind.dtype.itemsize
    return found


def _runs(plan: Plan, parts: Iterator[list[EnginePart]], threads: int) -> dict[str, Callable[[], object]]:
    """Return the calls of the plans that their engines take, by the names of the engines."""
    arrays = uniform_noise(plan.inputs.values())
    found: dict[str, Callable[[], object]] = {}
    for part in parts:
        with suppress(AnyLayerError):
            runner = PlanRunner(with_parts(plan, part), part[0].engine, threads)
            runner(arrays, {})
            found[", ".join(p.engine for p in part)] = partial(runner, arrays, {})
    return found


def measured(source: Source, threads: int) -> str:
    """Measure a network, and return its line."""
    with tempfile.TemporaryDirectory() as folder:
        model, weights = prepare(source, Path(folder))
        net = anylayer.read(model, weights, dialect=source.dialect)
        shapes = dict.fromkeys(net.inputs, source.shape) if source.shape else None
        plan = net.compile("onnxruntime", shapes, threads, outputs=list(source.outputs) or None).plan
    if plan is None or len(plan.steps) != 1 or not isinstance(plan.steps[0], GraphStep):
        return "is not one graph"
    order, cuts = positions(plan)
    whole = _runs(plan, ([EnginePart(engine, tuple(order))] for engine in ENGINES), threads)
    clock = time.process_time if threads == 1 else time.perf_counter
    alone = dict.fromkeys(whole, math.inf)
    found: list[tuple[float, int, str]] = []
    for cut in cuts:
        before, behind = tuple(order[:cut]), tuple(order[cut:])
        pairs = ([EnginePart(a, before), EnginePart(b, behind)] for a, b in permutations(ENGINES, 2))
        taken = timed_in_turns({**whole, **_runs(plan, pairs, threads)}, _SECONDS, clock)
        alone = {engine: min(seconds, taken[engine]) for engine, seconds in alone.items()}
        best = min(taken[engine] for engine in whole)
        found += [(seconds / best, cut, names) for names, seconds in taken.items() if names not in whole]
    ratio, cut, names = min(found)
    first, second = names.split(", ")
    parts = [EnginePart(first, tuple(order[:cut])), EnginePart(second, tuple(order[cut:]))]
    engine = min(alone, key=alone.__getitem__)
    again = timed_in_turns({engine: whole[engine], **_runs(plan, iter([parts]), threads)}, _LAST_SECONDS, clock)
    text = "".join(f"{alone.get(name, math.nan) * 1e3:12.3f}" for name in ENGINES)
    last = plan.nodes[order[cut - 1]].node.name
    return (
        f"{text} {len(cuts):9} {ratio:6.2f} {again[names] / again[engine]:6.2f}"
        f"  {ENGINES[first]} up to {last}, {ENGINES[second]}"
    )


def main() -> None:
    """Print a line for each network that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuts", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="measure these networks only")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of each engine [2]")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    heads = "".join(f"{name + ' ms':>12}" for name in ENGINES.values())
    print(f"{'network':20}{heads} {'positions':>9} {'first':>6} {'again':>6}  plan")
    for source in (*NETWORKS, *DETECTORS):
        if not options.only or source.name in options.only:
            print(f"{source.name:20}{measured(source, options.threads)}", flush=True)


if __name__ == "__main__":
    main()
