"""Profile a network: what each of its nodes costs, by the engine's own counters."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.inputs import input_arrays, needed_nodes
from anylayer.compile.nodes import trace_nodes
from anylayer.compile.plan import GraphStep, HostStep, KernelStep, Plan
from anylayer.engines import CountedProgram, Program, counting, load_engine
from anylayer.graph import Graph, Op
from anylayer.graph.facts import multiply_adds
from anylayer.inspect.costs import Cut, NodeCost, Part, Peaks, Profile
from anylayer.inspect.free import FreeLayer, free_types, steered_by
from anylayer.libraries.stdout import redirected_stdout
from anylayer.network import Array, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import NumpyRunner, step_programs
from anylayer.runtime.timing import fastest_run
from anylayer.source import TracedNode

if TYPE_CHECKING:
    from anylayer.api import Net


_WARM_UP = 3
"""The largest number of runs before the measurement."""
_LEAST = 3
"""The least number of runs that are measured."""
_MAX_RUNS = 1000
"""The largest number of runs that are measured, because an engine may keep every run's counters."""
_PAUSE = 0.07
"""Seconds after which the threads of an engine's last call no longer spin."""


@dataclass(frozen=True, slots=True)
class ProfileRun:
    """A profile, the outputs of the network, and the compiled graphs, before and after the rewrite rules."""

    profile: Profile
    outputs: Mapping[str, Array]
    graphs: Sequence[tuple[Graph, Graph]]


def profile(
    net: Net, inputs: Mapping[str, Any], engine: str = "auto", threads: int | None = None, seconds: float = 1.0
) -> Profile:
    """Run the network on an engine, and return what each node costs.

    Engines that count are asked for the time of each node of their graph. For others each call is timed from
    outside: on "numpy" that of each layer. What layers print is dropped. seconds: how long the network
    runs with counters, and how long without. Raises what compiling raises.
    """
    return profile_run(net, inputs, engine, threads, seconds).profile


def profile_run(
    net: Net, inputs: Mapping[str, Any], engine: str, threads: int | None, seconds: float
) -> ProfileRun:
    """Return the profile of a network, and what was run for it. See `profile`."""
    arrays = input_arrays(net.network, inputs)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "layer .* runs in Python", UserWarning)  # the result names them
        model = net.compile(engine, {name: a.shape for name, a in arrays.items()}, threads)
    needed = {name: arrays[name] for name in model.inputs}
    graphs: list[tuple[Graph, Graph]] = []
    outputs: dict[str, Array] = {}
    with redirected_stdout(drop=True):
        times = _times_of(lambda: outputs.update(model(needed)), seconds)
        time.sleep(_PAUSE)
        if model.plan is None:
            network, nodes = net.network, needed_nodes(net.network, net.network.outputs)
            types = {name: TensorType(a.shape, a.dtype) for name, a in needed.items()}
            traced = list(trace_nodes(network, nodes, net.definitions, types, lenient=True))
            costs, counted = _in_numpy(net, traced, needed, seconds), False
        else:
            traced = model.plan.nodes
            measured = _Measurement(model.plan, model.engine, threads)
            counted = measured.run(needed, seconds)
            costs, graphs = measured.costs(), measured.graphs
    time.sleep(_PAUSE)
    result = Profile(
        net.network.source,
        model.engine,
        threads,
        median(times),
        len(times),
        measure_peaks(model.engine, threads),
        costs,
        counted,
        [] if model.plan is None else _cuts(costs),
        free_types(net.definitions),
        steered_by(traced),
        _unnamed_layers(traced, costs),
        model.parts,
    )
    return ProfileRun(result, outputs, graphs)


def _cuts(costs: Iterable[NodeCost]) -> list[Cut]:
    """Return the layers around which the network is cut."""
    return [Cut(c.layers[0], c.types[0], c.where) for c in costs if c.where in ("native", "python", "free")]


def _unnamed_layers(traced: Iterable[TracedNode], costs: Iterable[NodeCost]) -> list[str]:
    """Return the layers with operators that are in no cost."""
    named = {name for cost in costs for name in cost.layers}
    return [t.node.name for t in traced if t.body is not None and t.body.ops and t.node.name not in named]


def _times_of(call: Callable[[], object], seconds: float) -> list[float]:
    """Return the seconds of each of the calls that fit in `seconds`, after a few that are not counted."""
    _warm_up(call, seconds)
    times: list[float] = []
    stop = time.perf_counter() + seconds
    while len(times) < _LEAST or (time.perf_counter() < stop and len(times) < _MAX_RUNS):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return times


def _warm_up(call: Callable[[], object], seconds: float) -> None:
    """Call a few times, and no longer than `seconds` if one call takes so long."""
    stop = time.perf_counter() + seconds
    for _ in range(_WARM_UP):
        call()
        if time.perf_counter() > stop:
            return


def _usual(times: Sequence[float]) -> float:
    """Return the mean of the times that do not exceed the median, so that pauses of the machine have no effect."""
    limit = median(times)
    return fmean(t for t in times if t <= limit)


class _Costs:
    """Collects the costs of a network, in computing order. Parts of the same layers are one."""

    def __init__(self, traced: Sequence[TracedNode]) -> None:
        self._types = {t.node.name: t.node.type for t in traced}
        ops = {t.node.name: t.body.ops if t.body is not None else [] for t in traced}
        self._work = {name: (multiply_adds(operators), len(operators)) for name, operators in ops.items()}
        self._order = {name: i for i, name in enumerate(self._types)}
        self._found: dict[tuple[str, tuple[str, ...], int], NodeCost] = {}
        self._clock = 0.0

    def add(
        self,
        layers: Iterable[str],
        where: str,
        step: int,
        part: tuple[str, str, float, int],
        macs: int = 0,
        precision: str = "",
        engine: str = "",
    ) -> None:
        """Add a part: its name, operation, seconds and bytes."""
        names = tuple(sorted({n for n in layers if n in self._order}, key=self._order.__getitem__))
        cost = self._found.get((where, names, step))
        if cost is None:
            lead = names.index(max(names, key=self._work.__getitem__)) if names else 0
            cost = NodeCost(names, tuple(self._types[n] for n in names), where, step, engine=engine, lead=lead)
            self._found[where, names, step] = cost
        name, operation, seconds, size = part
        cost.parts.append(Part(name, operation, self._clock, seconds, size, precision))
        cost.macs += macs
        self._clock += seconds

    def all(self) -> list[NodeCost]:
        """Return the costs."""
        return list(self._found.values())


@dataclass(slots=True)
class _Step:
    """A measured step of a plan: its program, the names of its inputs and outputs, the seconds of each run."""

    program: Any
    inputs: list[str]
    outputs: list[str]
    times: list[float] = field(default_factory=list)
    results: list[Array] | None = None
    bytes: int = 0


class _Measurement:
    """A plan that is run step by step. Its programs measure their nodes if the engine supports that."""

    def __init__(self, plan: Plan, engine: str, threads: int | None) -> None:
        self._plan, self._engine = plan, engine
        self.graphs: list[tuple[Graph, Graph]] = []

        def compile_step(step: GraphStep) -> Any:
            name = step.engine or engine
            compile_ = counting(name) or load_engine(name).compile
            graph = simplify(step.graph, name)
            self.graphs.append((step.graph, graph))
            return compile_(graph, threads)

        self._steps = [_Step(*parts) for parts in step_programs(plan, compile_step, threads)]

    def run(self, arrays: Mapping[str, Array], seconds: float) -> bool:
        """Measure runs for some seconds. Return whether the engine counts."""
        values: dict[str, Any] = {**arrays, **self._plan.constants}
        _warm_up(lambda: self._once(values), seconds)
        for step in self._steps:
            step.times.clear()
            if self._counts(step):
                step.program.reset()
        stop = time.perf_counter() + seconds
        for runs in range(_MAX_RUNS):
            if runs >= _LEAST and time.perf_counter() >= stop:
                break
            self._once(values)
        for step in self._steps:
            read_arrays = [values[name] for name in (*step.inputs, *step.outputs)]
            step.bytes = sum(array.nbytes for array in read_arrays if array is not None)
        engines = {step.engine or self._engine for step in self._plan.steps if isinstance(step, GraphStep)}
        return all(counting(name) is not None for name in engines or {self._engine})

    def _counts(self, step: _Step) -> bool:
        return isinstance(step.program, CountedProgram)

    def _once(self, values: dict[str, Any]) -> None:
        """Run all steps. A step writes into the arrays of its last run."""
        for step in self._steps:
            arrays = [values[name] for name in step.inputs]
            start = time.perf_counter()
            step.results = step.program(arrays, step.results)
            step.times.append(time.perf_counter() - start)
            values.update(zip(step.outputs, step.results))

    def costs(self) -> list[NodeCost]:
        """Return the costs of the nodes."""
        costs = _Costs(self._plan.nodes)
        for i, (step, planned) in enumerate(zip(self._steps, self._plan.steps)):
            seconds = _usual(step.times)
            if not isinstance(planned, GraphStep):
                device = getattr(step.program, "device_seconds", None)  # OpenCL measures the kernel itself
                _add_layer(costs, i, planned, seconds, step.bytes, device)
            elif self._counts(step):
                self._add_counters(costs, i, step.program, planned)
            else:
                ops, name = planned.graph.ops, planned.engine or self._engine
                part = (f"graph {i}", name, seconds, step.bytes + _constant_bytes(planned.graph))
                costs.add({o.scope for o in ops}, "engine", i, part, multiply_adds(ops), engine=name)
        return costs.all()

    def _add_counters(self, costs: _Costs, i: int, program: CountedProgram, step: GraphStep) -> None:
        """Add the nodes of the engine's graph, and the time of the call outside them."""
        counters, seconds = program.counters()
        engine = step.engine or self._engine
        folded = folded_layers(step.graph, {o.scope for o in program.graph.ops})
        seen: set[Op] = set()
        for c in counters:
            layers = {name for o in c.holds for name in (o.scope, *folded.get(o.scope, ()))}
            new = [] if c.reorder else [o for o in c.holds if o not in seen]
            seen.update(new)
            where = "reorder" if c.reorder else "engine"
            part = (c.name, c.operation, c.seconds, c.bytes)
            costs.add(layers, where, i, part, multiply_adds(new), c.precision, engine)
        rest = max(seconds - sum(c.seconds for c in counters), 0.0)
        costs.add((), "call", i, (f"call of {engine}", "", rest, 0), engine=engine)


def _constant_bytes(graph: Graph) -> int:
    """Return the bytes of the constants that operators read."""
    read = {v for o in graph.ops for v in o.inputs if v is not None}
    return sum(v.const.nbytes for v in read if v.const is not None)


def _add_layer(
    costs: _Costs, i: int, step: HostStep | KernelStep, seconds: float, size: int, device: float | None = None
) -> None:
    """Add a layer that runs between graphs. `device` is how long a device computed, as it measured itself."""
    t = step.traced
    where, operation = "python", "Python"
    if isinstance(step, KernelStep):
        free = isinstance(step.kernel, FreeLayer)
        where, operation = "free" if free else "native", str(step.kernel.configuration)
        seconds = 0.0 if free else seconds
    size += sum(blob.nbytes for blob in t.node.blobs)
    macs = multiply_adds(t.body.ops) if t.body is not None and where != "free" else 0
    if device is not None:
        call = max(seconds - device, 0.0)
        costs.add([t.node.name], where, i, (t.node.name, "call of the device, with copies", call, 0))
        seconds -= call
    costs.add([t.node.name], where, i, (t.node.name, operation, seconds, 0 if where == "free" else size), macs)


def folded_layers(graph: Graph, remaining: set[str]) -> dict[str, list[str]]:
    """Return the layers of a graph whose operators rewrite rules have folded into those of other layers.

    remaining: the layers that still have operators; they are the keys of the result. A layer is folded into the
    layer that reads it, or else into the one that it reads.
    """
    into: dict[str, str] = {name: name for name in remaining}
    links = [
        (graph.producers[v].scope, o.scope)
        for o in graph.ops
        for v in o.inputs
        if v is not None and v in graph.producers
    ]
    for before, after in reversed(links):
        if before not in into and after in into:
            into[before] = into[after]
    for before, after in links:
        if after not in into and before in into:
            into[after] = into[before]
    folded: dict[str, list[str]] = {}
    for name, layer in into.items():
        if name != layer:
            folded.setdefault(layer, []).append(name)
    return folded


def _in_numpy(
    net: Net, traced: Sequence[TracedNode], arrays: Mapping[str, Array], seconds: float
) -> list[NodeCost]:
    """Return the costs of the layers that NumPy runs one by one."""
    runner = NumpyRunner(net.network, net.definitions, net.network.outputs)
    times: list[list[float]] = [[] for _ in traced]

    def once() -> None:
        start = 0.0
        for i, _ in enumerate(runner.steps(arrays)):
            now = time.perf_counter()
            if i:
                times[i - 1].append(now - start)
            start = time.perf_counter()

    measured = len(_times_of(once, seconds))
    costs = _Costs(traced)
    for i, t in enumerate(traced):
        kinds = [k for k in (*t.inputs, *t.outputs) if k is not None and all(isinstance(d, int) for d in k.shape)]
        size = sum(math.prod(k.shape) * k.dtype.itemsize for k in kinds) + sum(b.nbytes for b in t.node.blobs)
        free = isinstance(t.kernel, FreeLayer)
        part = (t.node.name, "NumPy", 0.0 if free else _usual(times[i][-measured:]), 0 if free else size)
        macs = multiply_adds(t.body.ops) if t.body is not None and not free else 0
        costs.add([t.node.name], "free" if free else "python", i, part, macs)
    return costs.all()


_SIZE = 512
"""Rows and columns of the matrices whose product is measured."""
_VALUES = 1 << 23
"""The number of values (32 MiB) of the array that is read and written."""
_PEAK_SECONDS = 0.25
_MIN_RUNS = 4
_F4 = np.dtype(np.float32)


@lru_cache(None)
def measure_peaks(engine: str, threads: int | None) -> Peaks:
    """Return the peaks of an engine: the fastest of its runs of a matrix product, and of a ReLU of a large array.

    They are measured once in a process. For an engine that does not run every graph, and for "numpy", NumPy's
    functions are measured.
    """
    random = np.random.default_rng(0)
    x, weights = (random.random((_SIZE, _SIZE), np.float32) for _ in range(2))
    flat = np.ones(_VALUES, np.float32)
    if engine == "numpy" or not load_engine(engine).GENERAL:
        product = np.empty_like(x)
        copy = np.empty_like(flat)
        macs = fastest_run(lambda: np.matmul(x, weights, out=product), _PEAK_SECONDS, _MIN_RUNS)
        moved = fastest_run(lambda: np.maximum(flat, np.float32(0), out=copy), _PEAK_SECONDS, _MIN_RUNS)
        how = "NumPy's matmul and maximum"
    else:
        module = load_engine(engine)
        macs = _seconds_of(module.compile(_graph("MatMul", x.shape, weights), threads), [x])
        moved = _seconds_of(module.compile(_graph("Relu", flat.shape), threads), [flat])
        how = f"MatMul and Relu on {engine}"
    return Peaks(_SIZE**3 / macs, 2 * flat.nbytes / moved, how)


def _graph(op: str, shape: Sequence[int], *constants: Array) -> Graph:
    """Return a graph of one operator whose output has the shape of its input."""
    graph = Graph()
    inputs = [graph.input("x", shape, _F4), *(graph.constant(c, trusted=True) for c in constants)]
    graph.outputs = graph.emit(op, inputs, [(shape, _F4)], place="")
    return graph


def _seconds_of(program: Program, inputs: Sequence[Array]) -> float:
    """Return the seconds of the fastest run of a program that writes its outputs into given arrays."""
    out = [np.empty_like(inputs[0])]
    return fastest_run(lambda: program(inputs, out), _PEAK_SECONDS, _MIN_RUNS)
