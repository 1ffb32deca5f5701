"""Compilation: a network and how it is compiled, which all strategies of a model share."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from anylayer.compile.nodes import Definitions
from anylayer.compile.plan import Plan, make_plan
from anylayer.engines import Program, general, layer_engines, load_engine
from anylayer.errors import EngineError, need
from anylayer.graph import Graph
from anylayer.network import Array, DType, Network, Shape, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import NumpyRunner, PlanRunner

InputKey = tuple[tuple[Shape, DType], ...]
"""The shapes and dtypes of the inputs that a program is compiled for."""


@dataclass(frozen=True, slots=True)
class Compilation:
    """A network, and how it is compiled.

    `outputs` maps public names to values, and `names` are the inputs that they need. `engine` is the one that the
    caller names, or "auto", which takes one on `device` ("" for any).
    """

    network: Network
    definitions: Definitions
    outputs: Mapping[str, str]
    names: Sequence[str]
    engine: str
    device: str
    threads: int | None
    precision: str
    exact: bool

    def plan(self, types: Mapping[str, TensorType], engine: str) -> Plan:
        """Return the plan for these input types. On the engine, users' layers are compared with their traces."""

        def compile_graph(graph: Graph) -> Program:
            return load_engine(general()[0] if engine == "auto" else engine).compile(graph, 1)

        def compile_layer(graph: Graph) -> Program:
            engines = layer_engines(graph)
            need(engines, "no engine compiles code for layers", EngineError)
            name, layer_engine = next(iter(engines.items()))
            return layer_engine.compile(simplify(graph, name), 1)

        has_regions = self.device in ("", "cpu") and self.precision == "float32" and not self.exact
        check = (compile_graph, compile_layer) if engine == "auto" and has_regions else (compile_graph,)
        return make_plan(self.network, self.definitions, types, self.outputs, check=check)

    def runner(self, plan: Plan, engine: str) -> PlanRunner:
        """Compile a plan on an engine."""
        return PlanRunner(plan, engine, self.threads, self.precision, self.exact)

    def numpy(self) -> NumpyRunner:
        """Return the network as its layers in NumPy define it."""
        return NumpyRunner(self.network, self.definitions, self.outputs)

    def run_in_numpy(self, arrays: Sequence[Array]) -> Mapping[str, Array]:
        """Run the network as its layers in NumPy define it."""
        return self.numpy()(arrays, {})


def key_of_arrays(arrays: Sequence[Array]) -> InputKey:
    """Return the shapes and dtypes of input arrays. It is called for each run, and is faster for one array."""
    if len(arrays) == 1:
        array = arrays[0]
        return ((array.shape, array.dtype),)
    return tuple([(a.shape, a.dtype) for a in arrays])


def key_of(types: Mapping[str, TensorType | None]) -> InputKey:
    """Return the shapes and dtypes of inputs whose types are known."""
    return tuple((t.shape, t.dtype) for t in types.values() if t is not None)


def volume(key: InputKey | Sequence[tuple[Shape, object]]) -> int:
    """Return the number of values of all inputs."""
    return sum(math.prod(shape) for shape, _ in key)


def require_precision(engine: str, precision: str) -> None:
    """Raise EngineError if an engine does not compute in a precision."""
    able = list(load_engine(engine).PRECISIONS)
    need(precision in able, f"engine '{engine}' computes in {', '.join(able)}, got '{precision}'", EngineError)
