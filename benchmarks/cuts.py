"""python -m benchmarks.cuts: measure what plans for two engines could gain at most on the benchmarks' networks.

ONNX Runtime and OpenVINO measure each node of a network by their own counters, in turns, and the shortest time of
each counts. Layers that one of them computes together are a block. The bound is the time of the best plan in which
each block runs on one of the engines and each change of the engine costs 10 us, divided by the time of the better
engine. It assumes that values pass from one engine to the other in the order in which they need them, which is
not so. Therefore the best plan is also run as a whole, in turns with both engines, and its time is divided by
that of the better one.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import groupby
from pathlib import Path

import anylayer
from anylayer.compile.plan import GraphStep, Plan
from anylayer.compile.segments import EnginePart, with_parts
from anylayer.engines import counting
from anylayer.errors import AnyLayerError
from anylayer.inspect.profile import folded_layers
from anylayer.numerics import uniform_noise
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import PlanRunner
from anylayer.runtime.timing import timed_in_turns
from benchmarks.networks import DETECTORS, NETWORKS, Source
from benchmarks.parts.networks import prepare

ENGINES = ("onnxruntime", "openvino")
CUT = 10e-6
"""Seconds that a change of the engine costs."""
_TURNS = 8
"""The number of times that each engine is measured."""
_SECONDS = 0.12
"""The time, in seconds, of one measurement."""

Span = tuple[int, int]
"""The first and the last of the nodes that an engine computes together."""


def spans(step: GraphStep, engine: str, threads: int, order: Mapping[str, int]) -> tuple[dict[Span, float], float]:
    """Return the seconds of each span of nodes on an engine, and those of the call outside the nodes."""
    compile_ = counting(engine)
    assert compile_ is not None
    program = compile_(simplify(step.graph, engine), threads)
    arrays = uniform_noise(v.type for v in step.graph.inputs)
    time.sleep(0.07)  # the threads of the engine before still spin
    program(arrays)
    program.reset()
    stop, runs = time.perf_counter() + _SECONDS, 0
    while runs < 2 or time.perf_counter() < stop:
        program(arrays)
        runs += 1
    counters, seconds = program.counters()
    folded = folded_layers(step.graph, {o.scope for o in program.graph.ops})
    found: dict[Span, float] = {}
    last = (0, 0)
    for c in counters:
        names = {name for o in c.holds for name in (o.scope, *folded.get(o.scope, ()))}
        places = [order[name] for name in names if name in order]
        last = (min(places), max(places)) if places else last
        found[last] = found.get(last, 0.0) + c.seconds
    return found, max(seconds - sum(found.values()), 0.0)


def blocks(found: Sequence[Mapping[Span, float]], count: int) -> list[Span]:
    """Return the nodes as consecutive blocks, none of which any engine computes in part."""
    joined = {i for times in found for first, last in times for i in range(first, last)}
    ends = [i for i in range(count) if i not in joined]
    return list(zip([0, *(i + 1 for i in ends[:-1])], ends))


def best_plan(times: Mapping[str, Sequence[float]]) -> tuple[float, list[str]]:
    """Return the least seconds of all blocks, each on one engine, with the engine of each block."""
    reached: dict[str, tuple[float, list[str]]] = {name: (0.0, []) for name in times}
    for i in range(len(next(iter(times.values())))):
        reached = {
            name: min(
                (seconds + times[name][i] + (CUT if path and path[-1] != name else 0.0), [*path, name])
                for seconds, path in reached.values()
            )
            for name in times
        }
    return min(reached.values())


def measured(source: Source, threads: int) -> str:
    """Measure a network, and return its line."""
    with tempfile.TemporaryDirectory() as folder:
        model, weights = prepare(source, Path(folder))
        net = anylayer.read(model, weights, dialect=source.dialect)
        shapes = dict.fromkeys(net.inputs, source.shape) if source.shape else None
        compiled = net.compile("onnxruntime", shapes, threads, outputs=list(source.outputs) or None)
    plan = compiled.plan
    if plan is None or len(plan.steps) != 1 or not isinstance(plan.steps[0], GraphStep):
        return "is not one graph"
    return _line(plan, plan.steps[0], threads)


def _line(plan: Plan, step: GraphStep, threads: int) -> str:
    """Measure a plan of one graph, and return its line."""
    order = {t.node.name: i for i, t in enumerate(plan.nodes)}
    runs = [{name: spans(step, name, threads, order) for name in ENGINES} for _ in range(_TURNS)]
    cut = blocks([run[name][0] for run in runs for name in ENGINES], len(plan.nodes))
    times = {name: [min(_within(run[name][0], block) for run in runs) for block in cut] for name in ENGINES}
    call = min(run[name][1] for run in runs for name in ENGINES)
    alone = {name: sum(times[name]) + min(run[name][1] for run in runs) for name in ENGINES}
    seconds, path = best_plan(times)
    bound = (seconds + call) / min(alone.values())
    parts = [
        EnginePart(name, tuple(i for _, (first, last) in found for i in range(first, last + 1)))
        for name, found in groupby(zip(path, cut), key=lambda item: item[0])
    ]
    text = " ".join(f"{alone[name] * 1e3:9.3f}" for name in ENGINES)
    line = f"{text} {len(cut):7} {bound:7.2f} {len(parts) - 1:5}"
    if len(parts) < 2:
        return line
    try:
        runners = {name: PlanRunner(plan, name, threads, "float32", False) for name in ENGINES}
        runners["plan"] = PlanRunner(with_parts(plan, parts), parts[0].engine, threads, "float32", False)
        arrays = uniform_noise(plan.inputs.values())
        taken = timed_in_turns({name: partial(runner, arrays, {}) for name, runner in runners.items()}, 1.0)
    except AnyLayerError as error:
        return f"{line}  refused: {error}"
    return f"{line} {taken['plan'] / min(taken[name] for name in ENGINES):9.2f}"


def _within(times: Mapping[Span, float], block: Span) -> float:
    """Return the seconds of the spans in a block."""
    return sum(seconds for (first, _), seconds in times.items() if block[0] <= first <= block[1])


def main() -> None:
    """Print a line for each network that the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cuts", description=__doc__)
    parser.add_argument("--only", action="append", metavar="NAME", help="measure these networks only")
    parser.add_argument("--threads", type=int, default=2, metavar="N", help="threads of each engine [2]")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{'network':20} {'ORT ms':>9} {'OV ms':>9} {'blocks':>7} {'bound':>7} {'cuts':>5} {'measured':>9}")
    for source in (*NETWORKS, *DETECTORS):
        if not options.only or source.name in options.only:
            print(f"{source.name:20} {measured(source, options.threads)}", flush=True)


if __name__ == "__main__":
    main()
