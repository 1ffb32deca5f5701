"""Profile a network: run each node alone on an engine, on its real inputs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.nodes import input_arrays, needed_nodes, run_bound, trace_nodes
from anylayer.engines import load_engine
from anylayer.layer import Bound
from anylayer.network import Array, Node, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import NumpyRunner

if TYPE_CHECKING:
    from anylayer.api import Net

_RUNS = 5


def profile(
    net: Net, inputs: Mapping[str, Any], engine: str = "onnxruntime", threads: int | None = None
) -> list[tuple[str, str, float]]:
    """Return (node, layer type, seconds) for each node, the fastest of five runs.

    Constant nodes take 0 seconds. The sum is larger than the time of the whole network where the engine fuses
    nodes. Raises what compiling raises.
    """
    network = net.network
    arrays = input_arrays(network.inputs, inputs)
    types = {name: TensorType(a.shape, a.dtype) for name, a in arrays.items()}
    nodes = needed_nodes(network, network.outputs)
    traced = iter(trace_nodes(network, nodes, net.definitions, types))
    constants: set[str] = {""}
    rows: list[tuple[str, str, float]] = []

    def watch(node: Node, bound: Bound, given: list[Array | None], outputs: list[Array]) -> None:
        t = next(traced)
        feed = [np.ascontiguousarray(x) for x, name in zip(given, node.inputs) if name not in constants]
        constants.update(node.outputs[i] for i in t.constants)
        if t.is_constant:
            rows.append((node.name, node.type, 0.0))
        elif t.kernel is not None and engine != "numpy":
            kernel, whole = t.kernel.program(threads), [np.ascontiguousarray(x) for x in given]
            rows.append((node.name, node.type, _fastest(lambda: kernel(whole))))
        elif t.body is None or engine == "numpy":
            rows.append((node.name, node.type, _fastest(lambda: run_bound(bound, given))))
        else:
            program = load_engine(engine).compile(simplify(t.body, engine), threads)
            rows.append((node.name, node.type, _fastest(lambda: program(feed))))

    for _ in NumpyRunner(network, net.definitions, network.outputs).steps(list(arrays.values()), watch):
        pass
    return rows


def _fastest(call: Callable[[], object]) -> float:
    """Return the seconds of the fastest of a few calls."""
    best = float("inf")
    for _ in range(_RUNS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best
