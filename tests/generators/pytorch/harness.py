"""Run the module that the generator writes for a traced graph, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.generators.pytorch.module import ModuleCode, write_module
from anylayer.graph import Graph
from anylayer.graph.open_sizes import OpenSizes
from anylayer.network import Array, Network, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.source import Source
from anylayer.tracing import trace


def module_of(graph: Graph, sizes: OpenSizes | None = None) -> ModuleCode:
    """Return the module of a graph without a network around it. `sizes` are the open sizes of its inputs."""
    inputs = {v.name: v.type for v in graph.inputs}
    outputs = {f"output {i}": f"output {i}" for i in range(len(graph.outputs))}
    return write_module(Source(Network("tested", "caffe", {}, [], {}), graph, inputs, outputs, [], sizes=sizes))


def network_of(written: ModuleCode) -> Any:
    """Return an instance of a written class with its weights."""
    import torch

    space: dict[str, Any] = {"__name__": "model", "__file__": "model.py"}
    exec(compile(written.text, "model.py", "exec"), space)
    network = space[written.name]()
    network.load_state_dict({k: torch.from_numpy(np.array(v)) for k, v in written.state.items()})
    return network.eval()


def run(written: ModuleCode, inputs: Sequence[Array]) -> list[Array]:
    """Return the outputs of a written class."""
    import torch

    with torch.no_grad():
        results = network_of(written)(*(torch.from_numpy(x.copy()) for x in inputs))
    return [r.numpy() for r in (results if isinstance(results, tuple) else (results,))]


def traced(function: Callable[..., Any], inputs: Sequence[Array]) -> Graph:
    """Return the trace of a function of several arrays, simplified as the generator does it."""

    def as_list(arrays: Sequence[Any]) -> list[Any]:
        result = function(*arrays)
        return list(result) if isinstance(result, (tuple, list)) else [result]

    return simplify(trace(as_list, [TensorType.of(x.shape, x.dtype) for x in inputs]), "pytorch", exact=True)
