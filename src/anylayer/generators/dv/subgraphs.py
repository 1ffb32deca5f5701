"""Parts of a network's graph that become layers on the CPU."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace

import numpy as np

from anylayer.generators.dv.plan import Custom, DeviceBuffer, DvLayer, Softmax
from anylayer.graph import Graph, Op, Value


def convertible(layer: DvLayer, hardware: Container[DeviceBuffer]) -> list[DvLayer]:
    """Return the layers that take the place of one whose outputs hardware reads: softmax on the CPU, and a layer
    per output, because the runtime converts one array per layer."""
    kind = layer.kind
    if any(b in hardware for b in layer.outputs):
        if isinstance(kind, Softmax):
            return [replace(layer, kind=Custom(part(layer.ops, layer.ops[0].inputs, layer.ops[0].outputs)))]
        if isinstance(kind, Custom) and kind.graph is not None and len(layer.outputs) > 1:
            graph = kind.graph
            parts = [replace(kind, graph=part(graph.ops, graph.inputs, [v])) for v in graph.outputs]
            return [replace(layer, kind=one, outputs=[b]) for one, b in zip(parts, layer.outputs)]
    return [layer]


def part(ops: Sequence[Op], inputs: Sequence[Value | None], outputs: Sequence[Value]) -> Graph:
    """Return a graph of those of some operators that the outputs depend on."""
    graph = Graph()
    values = {v: graph.input(v.name, v.shape, v.dtype) for v in inputs if v is not None}
    for op in ops:
        for v in op.inputs:
            if v is not None and v.const is not None and v not in values:
                values[v] = graph.constant(v.const, trusted=True)
        made = graph.append_copy(op, [None if v is None else values[v] for v in op.inputs])
        values.update(zip(op.outputs, made))
    graph.outputs = [values[v] for v in outputs]
    graph.drop_dead()
    return graph


def mean(op: Op) -> Graph:
    """Return the graph of the mean of a map, for a global pooling."""
    graph, y = Graph(), op.outputs[0]
    x = graph.input("x", op.inputs[0].shape if op.inputs[0] is not None else (), y.dtype)
    axes = graph.constant(np.array([2, 3]))
    graph.outputs = graph.emit("ReduceMean", [x, axes], [(y.shape, y.dtype)], {"keepdims": 1}, scope=op.scope)
    return graph
