"""Compare an engine with NumPy node by node. Each node gets NumPy's inputs, so errors do not accumulate."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.inputs import input_arrays, needed_nodes
from anylayer.compile.nodes import trace_nodes
from anylayer.compile.noise import telling_noise
from anylayer.engines import Engine, general, load_engine
from anylayer.errors import AnyLayerError, EngineError, at
from anylayer.layer import Bound
from anylayer.network import Array, Node, TensorType, part_of
from anylayer.numerics import largest_error, scale_of, tells_enough, tolerance_for
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import NumpyRunner, Watch
from anylayer.source import TracedNode

if TYPE_CHECKING:
    from anylayer.api import Net

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
    def proves_nothing(self) -> bool:
        """Whether a wrong engine would have the same outputs, as far as they were compared."""
        return not (self.tells or self.on_noise)

    @property
    def relative(self) -> float:
        """The error relative to the scale."""
        return self.error / max(self.scale, 1e-6)


def verify(net: Net, inputs: Mapping[str, Any], engine: str | None = None) -> Iterator[NodeCheck]:
    """Run the network in NumPy, and each node alone on `engine` with NumPy's inputs; yield a check per node.

    engine: by default the first one of engines.general(). Only values that later nodes read are kept in memory.
    Raises what compiling raises.
    """
    engine = engine or general()[0]
    module = load_engine(engine)
    network = net.network
    net.require_known()
    arrays = input_arrays(network, inputs)
    types = {name: TensorType(a.shape, a.dtype) for name, a in arrays.items()}
    traced = iter(trace_nodes(network, needed_nodes(network, network.outputs), net.definitions, types))
    checks: list[NodeCheck] = []

    def watch(node: Node, bound: Bound, inputs: list[Array | None], outputs: list[Array]) -> None:
        t = next(traced)
        constant = {i for i, name in enumerate(node.inputs) if name in constants}
        constants.update(node.outputs[i] for i in t.constants)
        if t.kernel is None and t.body is None:
            note = "constant" if t.is_constant else t.reason
            checks.append(NodeCheck(node.name, node.type, 0.0, 0.0, True, note))
            return
        try:
            checks.append(_check_node(net, t, _program(t, module, engine, constant), inputs, outputs, constant))
        except EngineError as error:
            if t.kernel is not None:
                raise
            checks.append(NodeCheck(node.name, node.type, float("inf"), 0.0, False, str(error), refused=True))

    constants: set[str] = {""}
    runner = NumpyRunner(network, net.definitions, network.outputs)
    yield from _stream(runner, list(arrays.values()), watch, checks)


def _program(t: TracedNode, module: Engine, engine: str, constant: Container[int]) -> Run | None:
    """Return the function that runs a node alone: on the engine, or in its native kernel. None for a kernel
    without a NumPy class. `constant` are the indices of constant inputs."""
    if t.kernel is not None:
        if t.bound is not None and t.bound.definition.native_only:
            return None
        kernel = t.kernel.program()
        return lambda arrays: kernel([None if x is None else np.asarray(x, order="C") for x in arrays])
    graph = t.body
    if graph is None:
        raise ValueError(f"'{t.node.name}' has no operators")
    program = module.compile(simplify(graph, engine, exact=True), None)
    return lambda arrays: program([np.asarray(x, order="C") for i, x in enumerate(arrays) if i not in constant])


def _check_node(
    net: Net,
    t: TracedNode,
    run: Run | None,
    inputs: list[Array | None],
    outputs: list[Array],
    constant: Container[int],
) -> NodeCheck:
    """Compare a node's outputs, and where they tell little, also those that it computes from noise."""
    node = t.node
    if run is None:
        return NodeCheck(node.name, node.type, 0.0, 0.0, True, "a native kernel without a NumPy class")
    with at(node.place) if t.kernel is not None else nullcontext():
        check = _compare(node, inputs, run(inputs), outputs)
        if not check.ok or all(tells_enough(x, tolerance_for(x.dtype) * scale_of(x)) for x in outputs):
            return check
        types = {n: TensorType.of(x.shape, x.dtype) for n, x in zip(node.inputs, inputs) if n and x is not None}
        fixed = {
            n: x for i, (n, x) in enumerate(zip(node.inputs, inputs)) if n and x is not None and i in constant
        }
        alone = part_of(net.network, types, [node], {name: name for name in node.outputs})

        def in_numpy(arrays: Mapping[str, Array]) -> dict[str, Array]:
            return NumpyRunner(alone, net.definitions, alone.outputs)([arrays[name] for name in types], {})

        try:
            arrays, want, told = telling_noise(alone, net.definitions, types, in_numpy, fixed=fixed)
            feed = [arrays.get(name) for name in node.inputs]
            other = _compare(node, feed, run(feed), [want[name] for name in node.outputs])
        except AnyLayerError:  # noise may not suit the layer
            return replace(check, tells=False)
    return replace(check if other.ok else other, tells=False, on_noise=told)


def _stream(
    runner: NumpyRunner, arrays: list[Array], watch: Watch, checks: list[NodeCheck]
) -> Iterator[NodeCheck]:
    """Yield the checks that `watch` appends to `checks`, as soon as they are available."""
    for _ in runner.steps(arrays, watch):
        yield from checks
        checks.clear()


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
