"""Compare an engine with NumPy node by node. Each node gets NumPy's inputs, so errors do not accumulate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.inputs import input_arrays, needed_nodes
from anylayer.compile.nodes import trace_nodes
from anylayer.engines import load_engine
from anylayer.errors import EngineError, at
from anylayer.layer import Bound
from anylayer.network import Array, Node, TensorType
from anylayer.numerics import largest_error, scale_of, tolerance_for
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import NumpyRunner, Watch
from anylayer.source import TracedNode

if TYPE_CHECKING:
    from anylayer.api import Net


@dataclass(frozen=True, slots=True)
class NodeCheck:
    """The comparison of an engine with NumPy at one node.

    `error` is the largest absolute difference. `scale` is the largest absolute value of the output, or that of the
    inputs (at most 1) where it is larger, because an output that is small compared with its inputs has their
    rounding errors. `ok` is error <= 1e-5 * scale. `note` says why a node was not compared. `refused` says that
    the engine did not run it.
    """

    name: str
    type: str
    error: float
    scale: float
    ok: bool
    note: str = ""
    refused: bool = False

    @property
    def relative(self) -> float:
        """The error relative to the scale."""
        return self.error / max(self.scale, 1e-6)


def verify(net: Net, inputs: Mapping[str, Any], engine: str = "onnxruntime") -> Iterator[NodeCheck]:
    """Run the network in NumPy, and each node alone on `engine` with NumPy's inputs; yield a check per node.

    Only values that later nodes read are kept in memory. Raises what compiling raises.
    """
    module = load_engine(engine)
    network = net.network
    net.require_known()
    arrays = input_arrays(network, inputs)
    types = {name: TensorType(a.shape, a.dtype) for name, a in arrays.items()}
    traced = iter(trace_nodes(network, needed_nodes(network, network.outputs), net.definitions, types))
    found: list[NodeCheck] = []

    def watch(node: Node, bound: Bound, given: list[Array | None], outputs: list[Array]) -> None:
        t = next(traced)
        constant = {i for i, name in enumerate(node.inputs) if name in constants}
        constants.update(node.outputs[i] for i in t.constants)
        if t.kernel is not None:
            found.append(_check_kernel(t, given, outputs))
            return
        if t.body is None:
            found.append(
                NodeCheck(node.name, node.type, 0.0, 0.0, True, "constant" if t.is_constant else t.reason)
            )
            return
        feed = [np.asarray(x, order="C") for i, x in enumerate(given) if i not in constant]
        try:
            results = module.compile(simplify(t.body, engine, exact=True), None)(feed)
        except EngineError as error:
            found.append(NodeCheck(node.name, node.type, float("inf"), 0.0, False, str(error), refused=True))
            return
        found.append(_compare(node, [x for x in given if x is not None], results, outputs))

    constants: set[str] = {""}
    runner = NumpyRunner(network, net.definitions, network.outputs)
    yield from _stream(runner, list(arrays.values()), watch, found)


def _check_kernel(t: TracedNode, given: list[Array | None], outputs: list[Array]) -> NodeCheck:
    """Compare a node's native kernel with its NumPy class."""
    node = t.node
    if t.kernel is None or (t.bound is not None and t.bound.definition.native_only):
        return NodeCheck(node.name, node.type, 0.0, 0.0, True, "a native kernel without a NumPy class")
    feed = [None if x is None else np.asarray(x, order="C") for x in given]
    with at(node.place):
        return _compare(node, [x for x in given if x is not None], t.kernel.program()(feed), outputs)


def _stream(runner: NumpyRunner, arrays: list[Array], watch: Watch, found: list[NodeCheck]) -> Iterator[NodeCheck]:
    """Yield the checks that `watch` appends to `found`, as soon as they are available."""
    for _ in runner.steps(arrays, watch):
        yield from found
        found.clear()


def _compare(node: Node, given: list[Array], results: list[Array], outputs: list[Array]) -> NodeCheck:
    min_scale = min(scale_of(*given), 1.0)
    worst, scale, tolerance = 0.0, min_scale, tolerance_for(outputs[0].dtype if outputs else np.dtype("float32"))
    for got, want in zip(results, outputs):
        if got.shape != want.shape:
            text = f"shape {got.shape}, expected {want.shape}"
            return NodeCheck(node.name, node.type, float("inf"), scale, False, text)
        own = max(scale_of(want), min_scale)
        error = largest_error(got, want)
        if error / own >= worst / scale:
            worst, scale, tolerance = error, own, tolerance_for(want.dtype)
    return NodeCheck(node.name, node.type, worst, scale, worst <= tolerance * scale)
