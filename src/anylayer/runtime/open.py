"""One program for every size of the inputs, in place of a program per set of input shapes."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from anylayer.compile.choices import verified_sizes
from anylayer.compile.limits import graph_memory, need_memory
from anylayer.compile.open import OpenTraces, trace_open
from anylayer.compile.open import open_types as open_types
from anylayer.compile.plan import GraphStep, Plan
from anylayer.compile.symbolic import simplify_sized
from anylayer.engines import installed, suits
from anylayer.errors import AnyLayerError, EngineError, need
from anylayer.graph.expressions import symbol
from anylayer.graph.open_sizes import OpenSizes, parse_sizes
from anylayer.network import Array, TensorType
from anylayer.numerics import integer_ranges, uniform_noise
from anylayer.runtime.choice import agree
from anylayer.runtime.compilation import Compilation, InputKey, key_of, volume
from anylayer.runtime.run import PlanRunner
from anylayer.runtime.timing import timed_at_new_sizes

_KEYS_KEPT = 1024
"""The number of sets of input types for which the result of `takes` is stored."""
_SIZES_DRAWN = 64
"""The number of random sizes that are drawn. Engines are measured at some of them."""
_COMPARED = 2
"""The number of programs for one size with which a program for every size is compared."""
_MAX_ATTEMPTS = 4
"""The largest number of times that a program for every size is compiled, each time because other sizes vary."""
_NEW_SIZES = 17
"""The largest number of sizes at which each engine is measured."""


@dataclass(slots=True)
class OpenProgram:
    """A compiled network that takes every size that its conditions allow. Safe to call from several threads.

    `names` are the network's inputs. `types` are their types at the traced sizes, and `memory` the bytes that the
    network takes there. `known` maps input types to whether the program accepts them. `is_as_fast` is true where a
    call with a new size takes no longer than one of a program for that size.
    """

    runner: PlanRunner
    engine: str
    sizes: OpenSizes
    types: Mapping[str, TensorType]
    memory: int
    known: dict[InputKey, bool] = field(default_factory=dict)
    is_as_fast: bool = False

    def takes(self, key: InputKey) -> bool:
        """Return whether the inputs may have these types. Raises EngineError where they need too much memory."""
        is_taken = self.known.get(key)
        if is_taken is None:
            is_taken = self._takes(key)
            if len(self.known) >= _KEYS_KEPT:
                self.known.clear()
            self.known[key] = is_taken
        return is_taken

    def _takes(self, key: InputKey) -> bool:
        for (shape, dtype), (name, kind) in zip(key, self.types.items()):
            same = shape == kind.shape if name not in self.sizes.shapes else len(shape) == len(kind.shape)
            if dtype != kind.dtype or not same:
                return False
        symbols = self.symbols(key)
        if symbols is None or not self.sizes.allow(symbols):
            return False
        scale = volume(key) / max(volume([(t.shape, t.dtype) for t in self.types.values()]), 1)
        need_memory(int(self.memory * scale), f"{self.runner.plan.source}: the network")
        return True

    def symbols(self, key: InputKey) -> dict[str, int] | None:
        """Return the values of the open sizes of inputs with these types, or None if there are none."""
        return self.sizes.symbols_of({name: shape for name, (shape, _) in zip(self.types, key)})

    def refuse(self, key: InputKey) -> None:
        """Raise EngineError for these types in all later calls."""
        self.known[key] = False

    def __call__(self, arrays: Sequence[Array], out: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by public name, as PlanRunner does, which never writes to `out` here."""
        return self.runner(arrays, {})


def for_given_sizes(
    compilation: Compilation,
    types: Mapping[str, TensorType | None],
    sizes: OpenSizes,
    compile_: Callable[[InputKey], PlanRunner],
) -> OpenProgram:
    """Return one program for every size that the caller leaves open.

    types: those of the inputs. compile_: compiles the network for one set of sizes, to compare with. Raises an
    AnyLayerError where there is no such program.
    """
    traces = trace_open(compilation.network, compilation.definitions, types, sizes, compilation.outputs)
    keys = [key_of(traces.sizes.types(types, symbols)) for symbols in verified_sizes(traces.sizes)]
    return _fastest(compilation, traces, [Reference(key, compile_(key)) for key in keys[:_COMPARED]], keys)


def for_varied_sizes(
    compilation: Compilation,
    seen: Mapping[InputKey, tuple[float, PlanRunner | None]],
    key: InputKey,
    before: OpenProgram | None,
    attempts: list[OpenSizes],
) -> OpenProgram | None:
    """Return one program for all values of the sizes that have varied between calls; None where it was tried.

    seen: input types of the calls -> the seconds to compile their program, and the program where it is kept. key:
    the input types of the next call. before: the program for every size so far. attempts: the open sizes that were
    tried; those of this call are added. Raises an AnyLayerError where there is no program that is faster.
    """
    keys = [*seen, key]
    sizes = varied_sizes(compilation.names, [*([key_of(before.types)] if before is not None else []), *keys])
    if sizes is None or sizes in attempts or len(attempts) >= _MAX_ATTEMPTS:
        return None
    attempts.append(sizes)
    types = {name: TensorType(*kind) for name, kind in zip(compilation.names, key)}
    traces = trace_open(compilation.network, compilation.definitions, types, sizes, compilation.outputs)
    fastest = min(seconds for seconds, _ in seen.values())
    runners = {k: runner for k, (_, runner) in seen.items() if runner is not None}
    references = [Reference(k, runners[k], fastest) for k in sorted(runners, key=volume)[:_COMPARED]]
    return _fastest(compilation, traces, references, keys)


def varied_sizes(names: Sequence[str], keys: Sequence[InputKey]) -> OpenSizes | None:
    """Return open sizes for the axes in which sets of input types differ.

    Axes that are always equal share a symbol. None where the inputs differ in dtype or rank, or not at all.
    """
    shapes = {}
    symbols: dict[tuple[int, ...], str] = {}
    for i, name in enumerate(names):
        if len({(len(key[i][0]), key[i][1]) for key in keys}) > 1:
            return None
        columns = list(zip(*(key[i][0] for key in keys)))
        if any(len({*column}) > 1 for column in columns):
            shapes[name] = [
                symbol(symbols.setdefault(column, f"S{len(symbols)}")) if len({*column}) > 1 else column[0]
                for column in columns
            ]
    return parse_sizes(shapes)


def _program(compilation: Compilation, traces: OpenTraces, engine: str) -> OpenProgram:
    """Compile a network for every size on an engine.

    Raises TraceError where the traces differ in more than the sizes, and EngineError.
    """
    plan = _open_plan(traces, compilation.names, engine, exact=compilation.exact)
    types = {name: traces.first.inputs[name] for name in compilation.names}
    plain = {name: TensorType(tuple(map(int, t.shape)), t.dtype) for name, t in types.items()}
    runner = compilation.runner(plan, engine)
    return OpenProgram(runner, engine, traces.sizes, plain, graph_memory(traces.a.graph))


def _open_plan(traces: OpenTraces, names: Sequence[str], engine: str, *, exact: bool) -> Plan:
    """Return a plan that consists of one graph for every size."""
    source = traces.source(partial(simplify_sized, engine=engine, exact=exact))
    graph, network = source.graph, source.network
    by_name = {v.name: v for v in graph.inputs}
    graph.inputs = [by_name[name] for name in names]
    computed = [v for v in graph.outputs if v.const is None and v not in graph.inputs]
    need(
        len({*computed}) == len(graph.outputs),
        "an output of the network is an input, a constant or the same as another output",
        EngineError,
    )
    values = list(source.outputs.values())
    types = {name: v.type for name, v in (*by_name.items(), *zip(values, graph.outputs))}
    inputs = {name: by_name[name].type for name in names}
    step = GraphStep(graph, list(names), values)
    constants: dict[str, Any] = {"": None}
    return Plan(inputs, dict(source.outputs), types, [step], list(source.nodes), constants, network.source)


@dataclass(frozen=True, slots=True)
class Reference:
    """A program for one set of input types, with which a program for every size is compared.

    `seconds` is how long it took to compile it.
    """

    key: InputKey
    runner: PlanRunner
    seconds: float = math.inf


def _suited_engines(compilation: Compilation, references: Sequence[Reference]) -> list[str]:
    """Return the engines to try: the one that the caller names; for "auto" the general ones, and those that suit
    the references' network."""
    if compilation.engine != "auto":
        return [compilation.engine]
    graphs = [graph for r in references[:1] for graph in r.runner.plan.whole.graphs]
    return [
        name
        for name, engine in installed(compilation.device).items()
        if compilation.precision in engine.PRECISIONS and suits(engine, graphs, exact=compilation.exact)
    ]


def _fastest(
    compilation: Compilation, traces: OpenTraces, references: Sequence[Reference], keys: Sequence[InputKey]
) -> OpenProgram:
    """Return the program for every size of the engine that is the fastest at new sizes.

    keys: the types of inputs seen so far. A program is rejected if its outputs differ from the references. Raises
    the last engine's error if all are rejected, and EngineError if the fastest program is slower than compiling
    and running a reference. The programs are measured at sizes that are new to the process.
    """
    programs: dict[str, OpenProgram] = {}
    limit = math.inf
    problem: AnyLayerError = EngineError("no engine takes programs for every size")
    for engine in _suited_engines(compilation, references):
        try:
            program = _program(compilation, traces, engine)
            limit = min(limit, _compare(program, references))
            programs[engine] = program
        except AnyLayerError as error:
            problem = error
    if not programs:
        raise problem
    first = next(iter(programs.values()))
    if len(programs) == 1 and math.isinf(references[0].seconds):
        return first
    new = _new_sizes(first, keys) or [r.key for r in references if first.takes(r.key)]
    largest = max(new, key=volume)  # the engines allocate memory in its calls, which are not timed
    measured = [key for key in new if key != largest] or new
    calls = {engine: partial(program, out={}) for engine, program in programs.items()}
    seconds = timed_at_new_sizes(calls, _types(largest), [_types(key) for key in measured])
    best = min(seconds, key=seconds.__getitem__)
    programs[best].is_as_fast = seconds[best] <= limit
    limit += references[0].seconds / max(volume(measured[0]), 1)
    need(seconds[best] < limit, "the program for every size is slower than one per size", EngineError)
    return programs[best]


def _types(key: InputKey) -> list[TensorType]:
    return [TensorType(shape, dtype) for shape, dtype in key]


def _new_sizes(program: OpenProgram, keys: Sequence[InputKey]) -> list[InputKey]:
    """Return types of inputs with sizes between those of `keys`, nearest to their mean volume first.

    The sizes are random, because OpenVINO keeps generated code for the other programs of the process.
    """
    seen = [symbols for key in keys if (symbols := program.symbols(key)) is not None]
    values = {name: sorted(symbols[name] for symbols in seen) for name in program.sizes.ranges if seen}
    steps = {
        name: math.gcd(*(v - seen_values[0] for v in seen_values)) or 1 for name, seen_values in values.items()
    }
    random = np.random.default_rng()
    new_keys: dict[InputKey, None] = {}
    for _ in range(_SIZES_DRAWN):
        symbols = {
            name: seen_values[0]
            + steps[name] * int(random.integers((seen_values[-1] - seen_values[0]) // steps[name], endpoint=True))
            for name, seen_values in values.items()
        }
        if program.sizes.allow(symbols):
            new_keys[key_of(program.sizes.types(program.types, symbols))] = None
    mean = sum(map(volume, keys)) / max(len(keys), 1)
    return sorted((k for k in new_keys if k not in keys), key=lambda key: abs(volume(key) - mean))[:_NEW_SIZES]


def _compare(program: OpenProgram, references: Sequence[Reference]) -> float:
    """Compare a program with the references. Return the time of the references, in seconds per input value. Raises
    EngineError if the outputs differ.
    """
    seconds = 0.0
    comparable = [r for r in references if program.takes(r.key)]
    for r in comparable:
        shapes = ", ".join(str(shape) for shape, _ in r.key)
        rule = f"the program for every size computes something else at {shapes}"
        types = _types(r.key)
        for integers in integer_ranges(types):
            arrays = uniform_noise(types, integers=integers)
            start = time.perf_counter()
            try:
                want = r.runner(arrays, {})
            except AnyLayerError:
                if integers == 2:
                    raise
                break
            seconds += (time.perf_counter() - start) if integers == 2 else 0.0
            need(agree(program(arrays, {}), want), rule, EngineError)
    need(comparable, "the layers do not allow the sizes to vary", EngineError)
    return seconds / max(sum(volume(r.key) for r in comparable), 1)
