"""Run a network: a plan on an engine with host calls, or each layer's forward in NumPy."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from anylayer.compile.inputs import needed_inputs, needed_nodes
from anylayer.compile.limits import MAX_LAYER_OPERATORS, Budget, graph_memory, need_memory
from anylayer.compile.nodes import Definitions, after_error, guarded, run_bound
from anylayer.compile.plan import GraphStep, HostStep, KernelStep, Plan, Step, no_weights, with_native_operators
from anylayer.compile.shared import unshared
from anylayer.engines import KeepsOutputs, Program, alongside, embedding, load_engine
from anylayer.errors import (
    AnyLayerError,
    EngineError,
    LayerError,
    ShapeError,
    TraceError,
    at,
    call_contained,
    given,
    within,
)
from anylayer.layer import Bound, bind
from anylayer.layer.native import NativeProgram
from anylayer.network import ABSENT, Array, Network, Node, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.tracing import trace

SHAPES_KEPT = 8
"""The number of sets of input types for which a model keeps compiled programs, or bound layers."""
Watch = Callable[[Node, Bound, list[Array | None], list[Array]], None]
"""A function that is called after each node, with its inputs and outputs."""


_MAX_BYTES = 1 << 26
"""Bytes of the largest array whose memory the next call reuses. The page faults of 400 kB of new memory take 25
us, and an engine takes some microseconds to bind a new array."""


def scratch_types(plan: Plan) -> dict[str, TensorType]:
    """Return the types of the values whose memory may be reused by the next call, by name. In a plan with native
    kernels or several engines, these are the values that graphs or kernels produce and only graphs and kernels
    read. A layer in Python may keep an array, and the network's outputs belong to the caller.
    """
    if not any(
        isinstance(step, KernelStep) or (isinstance(step, GraphStep) and step.engine) for step in plan.steps
    ):
        return {}
    held = {name for step in plan.steps if isinstance(step, HostStep) for name in step.traced.node.inputs}
    held.update(plan.outputs.values())
    types: dict[str, TensorType] = {}
    for step in plan.steps:
        if isinstance(step, HostStep):
            continue
        produced = step.traced.node.outputs if isinstance(step, KernelStep) else step.outputs
        for name in produced:
            kind = plan.types.get(name)
            if kind is not None and name not in held and _is_kept(kind):
                types[name] = kind
    return types


def _is_kept(kind: TensorType) -> bool:
    """Return whether an array of this type has a fixed size that is not too large to be kept."""
    static = all(isinstance(d, int) for d in kind.shape)
    return static and math.prod(kind.shape) * kind.dtype.itemsize <= _MAX_BYTES


class Scratch(threading.local):
    """The arrays of one thread. `buffers` has per step an array or None per output, or None for no array."""

    def __init__(self, outputs: Sequence[Sequence[int]], types: dict[int, TensorType]) -> None:
        arrays = {place: np.empty(kind.shape, kind.dtype) for place, kind in types.items()}
        self.buffers: list[list[Array | None] | None] = [
            [arrays.get(place) for place in places] if any(place in arrays for place in places) else None
            for places in outputs
        ]


class HostCall:
    """A layer that runs in Python. Its class is called by one thread at a time, because it may keep state.

    An output that a graph reads (its name is in `fixed`) must have the shape for which that graph was compiled.
    Other outputs may have dynamic sizes. The first call has more checks, for properties that cannot change between
    calls.
    """

    def __init__(self, step: HostStep, plan: Plan, fixed: set[str]) -> None:
        self._bound: Bound = given(step.traced.bound, "a host call needs a layer")
        self._expected = [(t.shape, t.dtype) for t in (plan.types[name] for name in step.traced.node.outputs)]
        self._fixed = [name in fixed for name in step.traced.node.outputs]
        self._called = False

    def __call__(self, inputs: Sequence[Array], out: Sequence[Array | None] | None = None) -> list[Array]:
        with self._bound.turn:
            if not self._called or self._bound.definition.built_in or self._bound.errors != "ignore":
                outputs = self._contiguous(run_bound(self._bound, inputs))
                self._called = True
                return outputs
            return self._again(inputs)

    @np.errstate(all="ignore")
    def _again(self, inputs: Sequence[Array]) -> list[Array]:
        """Call a user's class again. This does what run_bound does, with fewer checks."""
        bound = self._bound
        arrays: Sequence[Any] = guarded(bound, inputs)
        try:
            result = bound.raw(arrays, call_contained)
        except AnyLayerError as error:
            with at(bound.node.place):
                raise error
        except Exception as error:
            return self._contiguous(after_error(bound, inputs, error))
        outputs = [*result] if isinstance(result, (list, tuple)) else result
        outputs = [result] if outputs is result and bound.definition.typed else outputs
        arrays, result = (), None  # unshared counts references
        if not self._fits(outputs):
            outputs = [np.asarray(o) for o in bound.outputs(outputs)]
            return self._contiguous(unshared(outputs))
        return unshared(outputs)

    def _fits(self, outputs: Any) -> bool:
        """Return whether the outputs are contiguous arrays of the expected shapes and dtypes."""
        if type(outputs) is not list or len(outputs) != len(self._expected):
            return False
        for output, (shape, dtype) in zip(outputs, self._expected):
            if type(output) is not np.ndarray or output.shape != shape or output.dtype != dtype:
                return False
            if not output.flags.c_contiguous:
                return False
        return True

    def _contiguous(self, outputs: list[Array]) -> list[Array]:
        """Return the outputs as contiguous arrays. Raise LayerError for one of another type than in the plan."""
        for i, (array, (shape, dtype), fixed) in enumerate(zip(outputs, self._expected, self._fixed)):
            if fixed and (array.shape != shape or array.dtype != dtype):
                actual = TensorType(array.shape, array.dtype)
                raise LayerError(
                    f"output {i} of forward is {actual}; it was {TensorType(shape, dtype)} when the network was "
                    "compiled. For a size that depends on data, use engine 'numpy'",
                    self._bound.node.place,
                )
        return [np.asarray(o, order="C") for o in outputs]


class PlanRunner:
    """A plan whose graphs are rewritten for an engine and compiled by it. Safe to call from several threads.

    A graph that names an engine is compiled by that one. `exact` leaves out the rewrite rules that change the last
    bits of the results.
    """

    def __init__(
        self, plan: Plan, engine: str, threads: int | None, precision: str = "float32", exact: bool = False
    ) -> None:
        self.plan = plan
        self._places: dict[str, int] = {name: i for i, name in enumerate(plan.inputs)}

        def compile_step(step: GraphStep) -> Program:
            name = step.engine or engine
            module = load_engine(name)
            compile_ = alongside(module) if step.engine else module.compile
            return compile_(simplify(step.graph, name, exact=exact), threads, precision)

        plan, programs = _programs(plan, engine, compile_step, threads, precision)
        self._steps = [
            (program, [*map(self._place, inputs)], [*map(self._place, outputs)])
            for program, inputs, outputs in programs
        ]
        self._outputs = [(public, self._place(value)) for public, value in plan.outputs.items()]
        self._keep_on_device()
        self._public = list(plan.outputs)
        constants = {self._place(name): array for name, array in plan.constants.items()}
        self._later = [constants.get(i) for i in range(len(plan.inputs), len(self._places))]
        self._whole = self._single()
        types = {self._place(name): kind for name, kind in scratch_types(plan).items()}
        self._scratch = Scratch([outputs for _, _, outputs in self._steps], types)

    def _place(self, name: str) -> int:
        """Return the index of a value in the list of all values."""
        return self._places.setdefault(name, len(self._places))

    def _keep_on_device(self) -> None:
        """Keep values that only graphs read in the device's memory, if the engine supports it."""
        away = {place for _, place in self._outputs}
        for program, inputs, _ in self._steps:
            if not isinstance(program, KeepsOutputs):
                away.update(inputs)
        for program, _, outputs in self._steps:
            if isinstance(program, KeepsOutputs):
                program.keep([i for i, place in enumerate(outputs) if place not in away])

    def _single(self) -> Program | None:
        """Return the program of a plan that is one graph with the network's inputs and outputs; None otherwise."""
        if len(self._steps) != 1:
            return None
        program, inputs, outputs = self._steps[0]
        same = inputs == [*range(len(self.plan.inputs))] and outputs == [place for _, place in self._outputs]
        return program if same and not isinstance(program, HostCall) else None

    def __call__(self, arrays: Sequence[Array], out: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by public name. An array in `out` is written to and returned for its output."""
        try:
            if self._whole is not None:
                buffers = [out.get(public) for public in self._public] if out else None
                results = self._whole(arrays, buffers)
                return {self._public[0]: results[0]} if len(results) == 1 else dict(zip(self._public, results))
            return self._stepwise(arrays, out)
        except EngineError as error:
            with within(self.plan.source):
                raise error

    def _stepwise(self, arrays: Sequence[Array], out: Mapping[str, Array]) -> dict[str, Array]:
        """Run the steps one after the other."""
        values: list[Any] = [*arrays, *self._later]
        to = {place: out[public] for public, place in self._outputs if public in out} if out else None
        for (program, inputs, outputs), scratch in zip(self._steps, self._scratch.buffers):
            buffers = _buffers(outputs, to, scratch) if to else scratch
            for i, array in zip(outputs, program([values[i] for i in inputs], buffers)):
                values[i] = array
        count = len(arrays)
        return {
            public: _returnable(values[i], i < count, to.get(i) if to else None) for public, i in self._outputs
        }


StepProgram = tuple[Program | HostCall | NativeProgram, list[str], list[str]]
"""The program of a step of a plan, with the names of its inputs and outputs."""


def _programs(
    plan: Plan, engine: str, compile_: Callable[[GraphStep], Program], threads: int | None, precision: str
) -> tuple[Plan, list[StepProgram]]:
    """Return the programs of the steps, and the plan of these steps. Native layers are operators of its graphs
    where the engine supports that, and where there is a graph or the layers need the engine's threads: a call of
    the engine for the layers alone takes 3 us on ONNX Runtime and 8 us on OpenVINO."""
    alone = threads == 1 and "@" not in engine and all(isinstance(step, KernelStep) for step in plan.steps)
    fits = embedding(engine) if precision == "float32" and not alone else None
    embedded = plan if fits is None else with_native_operators(plan, fits)
    if embedded is not plan:
        with suppress(EngineError):
            return embedded, list(step_programs(embedded, compile_, threads))
    return plan, list(step_programs(plan, compile_, threads))


def step_programs(
    plan: Plan, compile_: Callable[[GraphStep], Program], threads: int | None
) -> Iterator[StepProgram]:
    """Yield the program of each step of a plan.

    compile_: compiles the graph of a step. Its errors are raised with the name of the plan's file.
    """
    fixed = {name for step in plan.steps for name in _fixed_inputs(step)}
    for step in plan.steps:
        if isinstance(step, GraphStep):
            with within(plan.source):
                program = compile_(step)
            yield program, step.inputs, step.outputs
            continue
        node = step.traced.node
        if isinstance(step, KernelStep):
            yield step.kernel.program(threads), node.inputs, node.outputs
        else:
            yield HostCall(step, plan, fixed), node.inputs, node.outputs


def _buffers(
    outputs: Sequence[int], to: Mapping[int, Array], scratch: Sequence[Array | None] | None
) -> list[Array | None]:
    """Return the arrays that a step writes its outputs into: the caller's, else those of the scratch memory."""
    if scratch is None:
        return [to.get(i) for i in outputs]
    return [to.get(i) if array is None else array for i, array in zip(outputs, scratch)]


def _fixed_inputs(step: Step) -> list[str]:
    """Return the values whose shapes a step is compiled for."""
    if isinstance(step, GraphStep):
        return step.inputs
    return step.traced.node.inputs if isinstance(step, KernelStep) else []


def _returnable(array: Array, shared: bool, buffer: Array | None) -> Array:
    """Return the array in the caller's `buffer` if there is one; else a copy where it is read-only or `shared`
    with the caller's input, so that the caller may write to it."""
    if buffer is not None and buffer is not array:
        np.copyto(buffer, array)
        return buffer
    return array.copy() if shared or not array.flags.writeable else array


class NumpyRunner:
    """The definition of a network: it runs each layer's forward in NumPy, in computing order.

    A value is dropped when no later node reads it.
    """

    def __init__(self, network: Network, definitions: Definitions, outputs: Mapping[str, str]) -> None:
        self._network, self._definitions = network, definitions
        self._outputs = dict(outputs)
        self._nodes = needed_nodes(network, outputs)
        self._inputs = needed_inputs(network, outputs)
        self._last: dict[str, int] = {}
        for i, node in enumerate(self._nodes):
            self._last.update(dict.fromkeys([*node.inputs, *node.outputs], i))
        self._bounds: dict[int, OrderedDict[tuple[TensorType, ...], Bound]] = {
            i: OrderedDict() for i in range(len(self._nodes))
        }
        self._lock = threading.Lock()

    def __call__(self, arrays: Sequence[Array], out: Mapping[str, Array]) -> dict[str, Array]:
        """Return the outputs by public name, as PlanRunner does."""
        return self.run(dict(zip(self._inputs, arrays)), out)

    def run(self, arrays: Mapping[str, Array], out: Mapping[str, Array] | None = None) -> dict[str, Array]:
        """Return the outputs for the arrays of the inputs by name, of which some may not be needed."""
        *_, values = self.steps(arrays)
        results = {}
        for public, value in self._outputs.items():
            array = np.asarray(values[value], order="C")
            results[public] = _returnable(array, value in self._inputs, (out or {}).get(public))
        return results

    def steps(self, arrays: Mapping[str, Array], watch: Watch | None = None) -> Iterator[dict[str, Array]]:
        """Run node by node. Yield the values that are still needed, by name, before the first node and after each.

        arrays: those of the inputs by name. `watch(node, bound, inputs, outputs)` is called after each node.
        """
        values: dict[str, Any] = {**{name: arrays[name] for name in self._inputs}, "": None}
        needed = {"", *self._outputs.values()}
        yield values
        for i, node in enumerate(self._nodes):
            inputs = [values[name] for name in node.inputs]
            bound = self._bound(i, node, inputs)
            outputs = run_bound(bound, inputs)
            if bound.unfilled:
                raise no_weights(self._network, node, bound.unfilled)
            if watch is not None:
                watch(node, bound, inputs, outputs)
            values.update(zip(node.outputs, outputs))
            for name in {*node.inputs, *node.outputs}:
                if self._last[name] == i and name not in needed:
                    del values[name]
            yield values

    def _bound(self, i: int, node: Node, inputs: Sequence[Array | None]) -> Bound:
        """Return the layer of node `i` for the types of these inputs. Those of the last SHAPES_KEPT types are
        kept.

        It is created without a lock, because this calls a user's class.
        """
        types = tuple(ABSENT if x is None else TensorType(x.shape, x.dtype) for x in inputs)
        bounds = self._bounds[i]
        with self._lock:
            if types in bounds:
                bounds.move_to_end(types)
                return bounds[types]
        network = self._network
        bound = bind(node, self._definitions[node.type], types, network.dialect, network.dtype)
        if bound.definition.built_in:
            _need_memory(bound, types)
        with self._lock:
            bound = bounds.setdefault(types, bound)
            while len(bounds) > SHAPES_KEPT:
                bounds.popitem(last=False)
        return bound


def _without_absent(bound: Bound, types: Sequence[TensorType]) -> Callable[[list[Any]], list[Any]]:
    """Return the layer as a function of the inputs that are not absent."""

    def call(arrays: list[Any]) -> list[Array]:
        left = iter(arrays)
        return bound([None if t is ABSENT else next(left) for t in types])

    return call


def _need_memory(bound: Bound, types: Sequence[TensorType]) -> None:
    """Raise EngineError if the results of a built-in layer exceed the free memory, before NumPy allocates them."""
    try:
        body = trace(
            _without_absent(bound, types), [t for t in types if t is not ABSENT], limit=MAX_LAYER_OPERATORS
        )
    except (ShapeError, TraceError):  # a body that runs no step may not be computed for these sizes
        return
    with at(bound.node.place):
        Budget().take_graph(body)
        need_memory(graph_memory(body), "it")
