"""Compare an engine with NumPy node by node. Each node gets NumPy's inputs, so errors do not accumulate.

Nodes are compiled together, as one graph in which none reads another one, because an engine takes longer to
compile many small graphs. A node that differs is compiled alone. If the engine refuses the graph, all nodes are.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.inputs import input_arrays, needed_nodes
from anylayer.compile.nodes import trace_nodes
from anylayer.compile.noise import telling_noise
from anylayer.engines import Engine, general, load_engine
from anylayer.errors import AnyLayerError, EngineError, at
from anylayer.graph import Graph
from anylayer.layer import Bound
from anylayer.network import Array, Node, TensorType, part_of
from anylayer.numerics import largest_error, scale_of, tells_enough, tolerance_for
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import NumpyRunner
from anylayer.source import TracedNode

if TYPE_CHECKING:
    from anylayer.api import Net

_CONSTANT = "constant"
"""The note of a node whose outputs do not depend on the inputs."""
Run = Callable[[Sequence[Array | None]], Sequence[Array]]
"""A function from the inputs of a node, including constant and absent ones, to its outputs."""


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """The comparison of an engine with NumPy at one node.

    `error` is the largest absolute difference. `scale` is the largest absolute value of the output, or that of the
    inputs (at most 1) where it is larger, because an output that is small compared with its inputs has their
    rounding errors. `ok` is error <= 1e-5 * scale. `note` says why a node was not compared. `refused` says that
    the engine did not run it. `tells` is false where an output hardly depends on the inputs: it is empty,
    constant, saturated or tiny. `on_noise` is true where the node was then compared on noise that tells more.
    """

    name: str
    type: str
    error: float
    scale: float
    ok: bool
    note: str = ""
    refused: bool = False
    tells: bool = True
    on_noise: bool = False

    @property
    def is_constant(self) -> bool:
        return self.note == _CONSTANT

    @property
    def proves_nothing(self) -> bool:
        """Whether a wrong engine would have the same outputs, as far as they were compared."""
        return not (self.tells or self.on_noise)

    @property
    def relative(self) -> float:
        """The error relative to the scale."""
        return self.error / max(self.scale, 1e-6)


_TOGETHER = 32
"""The largest number of nodes that are compiled together."""
_BYTES = 1 << 26
"""Nodes are compiled once their inputs and outputs have more bytes, because they are kept in memory until then."""


@dataclass(slots=True)
class _Waiting:
    """A node that NumPy has run, with its inputs and outputs. `constant` are the indices of constant inputs."""

    traced: TracedNode
    inputs: list[Array | None]
    outputs: list[Array]
    constant: Container[int]

    @property
    def nbytes(self) -> int:
        return sum(x.nbytes for x in (*self.inputs, *self.outputs) if x is not None)

    @property
    def arguments(self) -> list[Array]:
        """The inputs of the node's graph."""
        return [np.asarray(x, order="C") for i, x in enumerate(self.inputs) if i not in self.constant]


def verify(
    net: Net,
    inputs: Mapping[str, Any],
    engine: str | None = None,
    *,
    value_names: Mapping[str, str] = MappingProxyType({}),
    values: dict[str, Array] | None = None,
    traced: Iterable[TracedNode] | None = None,
) -> Iterator[NodeCheck]:
    """Run the network in NumPy, and each node alone on `engine` with NumPy's inputs; yield a check per node.

    engine: by default the first one of engines.general(). Only values that later nodes read are kept in memory.
    values: gets NumPy's values that `value_names` names (key to value). traced: the network's nodes, traced for
    these inputs, where the caller has them. Raises what compiling raises.
    """
    engine = engine or general()[0]
    module = load_engine(engine)
    network = net.network
    net.require_known()
    arrays = input_arrays(network, inputs)
    nodes = needed_nodes(network, network.outputs)
    if traced is None:
        types = {name: TensorType(a.shape, a.dtype) for name, a in arrays.items()}
        traced = trace_nodes(network, nodes, net.definitions, types)
    needed = {id(node) for node in nodes}
    remaining = iter([t for t in traced if id(t.node) in needed])
    waiting: list[_Waiting | NodeCheck] = []

    def watch(node: Node, bound: Bound, inputs: list[Array | None], outputs: list[Array]) -> None:
        t = next(remaining)
        constant = {i for i, name in enumerate(node.inputs) if name in constants}
        constants.update(node.outputs[i] for i in t.constants)
        if values is not None:
            produced = dict(zip(node.outputs, outputs))
            values.update({key: produced[name] for key, name in value_names.items() if name in produced})
        if t.kernel is None and t.body is None:
            note = _CONSTANT if t.is_constant else t.reason
            waiting.append(NodeCheck(node.name, node.type, 0.0, 0.0, True, note))
        else:
            waiting.append(_Waiting(t, inputs, outputs, constant))

    constants: set[str] = {""}
    runner = NumpyRunner(network, net.definitions, network.outputs)
    for _ in runner.steps(arrays, watch):
        held = sum(w.nbytes for w in waiting if isinstance(w, _Waiting))
        if len(waiting) >= _TOGETHER or held > _BYTES:
            yield from _checks(net, waiting, module, engine)
            waiting.clear()
    yield from _checks(net, waiting, module, engine)


def _checks(net: Net, waiting: Sequence[_Waiting | NodeCheck], module: Engine, engine: str) -> Iterator[NodeCheck]:
    """Yield the checks of nodes that NumPy has run."""
    together = _run_together([w for w in waiting if isinstance(w, _Waiting)], module, engine)
    for w in waiting:
        if isinstance(w, NodeCheck):
            yield w
            continue
        try:
            yield _check_node(net, w, module, engine, together.get(id(w)))
        except EngineError as error:
            t = w.traced
            if t.kernel is not None:
                raise
            yield NodeCheck(t.node.name, t.node.type, float("inf"), 0.0, False, str(error), refused=True)


def _run_together(waiting: Sequence[_Waiting], module: Engine, engine: str) -> dict[int, list[Array]]:
    """Return the outputs of nodes that run as one graph, by the nodes' ids; {} where the engine refuses it."""
    graph = Graph()
    outputs: dict[int, int] = {}
    arguments: list[Array] = []
    for w in waiting:
        if w.traced.kernel is None and w.traced.body is not None:
            names = (f"{len(outputs)}.{v.name}" for v in w.traced.body.inputs)
            inputs = [graph.input(n, v.shape, v.dtype) for n, v in zip(names, w.traced.body.inputs)]
            results = graph.inline(w.traced.body, inputs, scope=w.traced.node.name)
            graph.outputs += results
            outputs[id(w)] = len(results)
            arguments += w.arguments
    if len(outputs) < 2:
        return {}
    with suppress(EngineError):
        outputs_left = iter(module.compile(simplify(graph, engine, exact=True), None)(arguments))
        return {key: [next(outputs_left) for _ in range(count)] for key, count in outputs.items()}
    return {}


def _program(t: TracedNode, module: Engine, engine: str, constant: Container[int]) -> Run:
    """Return the function that runs a node alone, on the engine or natively. `constant`: indices of inputs."""
    if t.kernel is not None:
        kernel = t.kernel.program()
        return lambda arrays: kernel([None if x is None else np.asarray(x, order="C") for x in arrays])
    graph = t.body
    if graph is None:
        raise ValueError(f"'{t.node.name}' has no operators")
    program = module.compile(simplify(graph, engine, exact=True), None)
    return lambda arrays: program([np.asarray(x, order="C") for i, x in enumerate(arrays) if i not in constant])


def _check_node(
    net: Net, waiting: _Waiting, module: Engine, engine: str, together: Sequence[Array] | None
) -> NodeCheck:
    """Compare a node's outputs, and where they tell little, also those that it computes from noise.

    together: the outputs that the node has in a graph with others. None where there is no such graph.
    """
    t, inputs, outputs, constant = waiting.traced, waiting.inputs, waiting.outputs, waiting.constant
    node = t.node
    if t.kernel is not None and t.bound is not None and t.bound.definition.native_only:
        return NodeCheck(node.name, node.type, 0.0, 0.0, True, "a native kernel without a NumPy class")
    program = cache(partial(_program, t, module, engine, constant))
    with at(node.place) if t.kernel is not None else nullcontext():
        check = _compare(node, inputs, together, outputs) if together is not None else None
        if check is None or not check.ok:
            check = _compare(node, inputs, program()(inputs), outputs)
        if not check.ok or all(tells_enough(x, tolerance_for(x.dtype) * scale_of(x)) for x in outputs):
            return check
        types = {n: TensorType.of(x.shape, x.dtype) for n, x in zip(node.inputs, inputs) if n and x is not None}
        fixed = {
            n: x for i, (n, x) in enumerate(zip(node.inputs, inputs)) if n and x is not None and i in constant
        }
        alone = part_of(net.network, types, [node], {name: name for name in node.outputs})
        runner = NumpyRunner(alone, net.definitions, alone.outputs)
        try:
            arrays, want, told = telling_noise(alone, net.definitions, types, runner.run, fixed=fixed)
            feed = [arrays.get(name) for name in node.inputs]
            other = _compare(node, feed, program()(feed), [want[name] for name in node.outputs])
        except AnyLayerError:  # noise may not suit the layer
            return replace(check, tells=False)
    return replace(check if other.ok else other, tells=False, on_noise=told)


def _compare(
    node: Node, inputs: Sequence[Array | None], results: Sequence[Array], outputs: Sequence[Array]
) -> NodeCheck:
    min_scale = min(scale_of(*(x for x in inputs if x is not None)), 1.0)
    worst, scale, tolerance = 0.0, min_scale, tolerance_for(outputs[0].dtype if outputs else np.dtype("float32"))
    for result, want in zip(results, outputs):
        if result.shape != want.shape:
            text = f"shape {result.shape}, expected {want.shape}"
            return NodeCheck(node.name, node.type, float("inf"), scale, False, text)
        own_scale = max(scale_of(want), min_scale)
        error = largest_error(result, want)
        if error / own_scale >= worst / scale:
            worst, scale, tolerance = error, own_scale, tolerance_for(want.dtype)
    return NodeCheck(node.name, node.type, worst, scale, worst <= tolerance * scale)
