"""Where a network's time goes: every node alone on the engine, on its real inputs."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.nodes import needed_nodes, run_bound, trace_nodes
from anylayer.engines import load_engine
from anylayer.network import Array, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.runtime.run import NumpyRunner

if TYPE_CHECKING:
    from anylayer.api import Net

_ROUNDS = 5


def profile(
    net: Net, inputs: Mapping[str, Any], engine: str = "onnxruntime", threads: int | None = None
) -> list[tuple[str, str, float]]:
    """(node, type, seconds) of every node, the best of five runs. The sum exceeds the whole network's time,
    where engines fuse nodes; constants take none."""
    network = net.network
    arrays = {
        name: np.ascontiguousarray(inputs[name], kind.dtype if kind else np.float32)
        for name, kind in network.inputs.items()
    }
    types = {name: TensorType(a.shape, a.dtype) for name, a in arrays.items()}
    nodes = needed_nodes(network, network.outputs)
    traced = iter(trace_nodes(network, nodes, net.definitions, types))
    constants: set[str] = {""}
    rows: list[tuple[str, str, float]] = []

    def watch(node: Any, bound: Any, given: list[Array], outputs: list[Array]) -> None:
        t = next(traced)
        feed = [np.ascontiguousarray(x) for x, name in zip(given, node.inputs) if name not in constants]
        constants.update(node.outputs[i] for i in t.constants)
        if t.is_constant:
            rows.append((node.name, node.type, 0.0))
        elif t.kernel is not None and engine != "numpy":
            kernel, whole = t.kernel.program(threads), [np.ascontiguousarray(x) for x in given]
            rows.append((node.name, node.type, _best(lambda: kernel(whole))))
        elif t.body is None or engine == "numpy":
            rows.append((node.name, node.type, _best(lambda: run_bound(bound, given))))
        else:
            program = load_engine(engine).compile(simplify(t.body, engine), threads)
            rows.append((node.name, node.type, _best(lambda: program(feed))))

    for _ in NumpyRunner(network, net.definitions, network.outputs).steps(list(arrays.values()), watch):
        pass
    return rows


def _best(call: Any) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
    return best
