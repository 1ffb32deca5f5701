"""Changes of a graph for the hardware: fixed buffers, values of 16-bit floats, parts for the CPU."""

from __future__ import annotations

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace

import numpy as np

from anylayer.errors import LayerError, at
from anylayer.generators import Expected
from anylayer.generators.dv.plan import Custom, DeviceBuffer, DvLayer, Softmax
from anylayer.generators.dv.weights import LARGEST
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import integers
from anylayer.graph.operators import HOMOGENEOUS, HOMOGENEOUS_TOGETHER, PRODUCTS, REARRANGES
from anylayer.graph.sizes import Dim, is_static, stand_for
from anylayer.network import Array
from anylayer.optimize.rules import Rewriter


def with_fixed_sizes(graph: Graph, places: Mapping[str, str]) -> Graph:
    """Return a graph that computes all rows that `ops.head` could return, of which the absent ones hold -1.

    places: the place of each node of the network, by name. Dynamic sizes of another origin are left as they are.
    Raises LayerError for a layer that computes with such rows.
    """
    if all(is_static(v.shape) for op in graph.ops for v in op.outputs):
        return graph
    new, padded = Rewriter(graph), set[Value]()
    for op in graph.ops:
        inputs = [new.mapped(v) for v in op.inputs]
        types = [(v.shape, v.dtype) for v in op.outputs]
        if op.op == "Loop" and not op.domain:
            with at(places.get(op.scope, "")):
                raise LayerError("its number of steps depends on data; compute it in the application")
        body = None if op.body is None else with_fixed_sizes(op.body, places)
        is_padded = _is_head(op) or not padded.isdisjoint(inputs)
        if _is_head(op):
            results = _fill_rows(new, op, inputs[0], inputs[2])
        elif is_padded:
            moved = op in REARRANGES and all(v is None or v.const is not None for v in inputs[1:])
            if not moved:
                with at(places.get(op.scope, "")):
                    raise LayerError(
                        "it reads rows whose number depends on data, and buffers of the hardware have fixed "
                        "sizes; end the network before this layer, and compute it in the application"
                    )
            types = [(stand_for(shape), dtype) for shape, dtype in types]
            results = new.graph.append_copy(op, inputs, types=types)
        else:
            if body is not None:
                types = [(v.shape, v.dtype) for v in body.outputs]
            results = new.graph.append_copy(op, inputs, types=types, body=body)
        padded.update(results if is_padded else ())
        new.bind(op.outputs, results)
    new.graph.outputs = [v for v in map(new.mapped, graph.outputs) if v is not None]
    return new.graph


def _is_head(op: Op) -> bool:
    """Return whether an operator returns the first rows of an array, whose number depends on data."""
    x, shape = op.inputs[0] if op.inputs else None, op.outputs[0].shape
    if op.op != "Slice" or op.domain or x is None or not is_static(x.shape) or not isinstance(shape[0], Dim):
        return False
    start, axes = integers(op.inputs[1]), integers(op.input(3))
    whole = shape[0].maximum == x.shape[0] and tuple(shape[1:]) == tuple(x.shape[1:])
    return whole and start == [0] and axes == [0] and len(op.inputs) == 4


def _fill_rows(new: Rewriter, op: Op, x: Value | None, end: Value | None) -> list[Value]:
    """Append operators that return the rows of a head, followed by rows of -1."""

    def filled(x: Array, end: Array) -> Array:
        exists = np.arange(x.shape[0]).reshape(-1, *[1] * (len(x.shape) - 1)) < end
        return np.where(exists, x, x.dtype.type(-1))

    return new.record(op, filled, [x, end])


def padded_to(expected: Expected, shapes: Mapping[str, tuple[int, ...]]) -> Expected:
    """Return the outputs with rows of -1 up to these shapes."""
    samples = []
    for sample in expected.samples:
        outputs = {
            name: np.pad(y, [(0, n - d) for n, d in zip(shapes[name], y.shape)], constant_values=-1)
            for name, y in sample.outputs.items()
        }
        samples.append(replace(sample, outputs=outputs))
    return replace(expected, samples=samples)


# ---- values beyond the range of 16-bit floats: layers compute them divided by a power of two, if the weights of
# the layers that read them undo this

_TARGET = 2.0**14
"""The largest value that a layer computes after it was scaled. Other inputs may give four times larger ones."""


class TooLarge(LayerError):
    """The error of a layer whose values 16-bit floats cannot hold: `op` computes them, up to `largest`."""

    def __init__(self, message: str, op: Op, largest: float) -> None:
        super().__init__(message)
        self.op, self.largest = op, largest


def scaled_down(graph: Graph, op: Op, largest: float) -> Graph | None:
    """Return a graph in which an operator computes smaller values, with other weights before and after it.

    Return None where operators other than sums and those with weights read the values, or where weights would be
    too large.
    """
    groups = _Groups(graph)
    group = groups.of(op.outputs[0])
    if group is groups.of(None):
        return None
    exponent = math.ceil(math.log2(largest / _TARGET))
    new = Rewriter(graph)

    def scaled(value: Value | None, times: int) -> Value | None:
        if value is None or value.const is None or times == 0:
            return new.mapped(value)
        return new.constant(np.ldexp(value.const, times).astype(value.dtype))

    for other in graph.ops:
        into, out = (exponent * (groups.of(v) is group) for v in (other.inputs[0], other.outputs[0]))
        changes = [0, into - out, -out] if _is_linear(other) else []
        inputs = [scaled(v, changes[i] if i < len(changes) else 0) for i, v in enumerate(other.inputs)]
        weight = inputs[1] if changes else None
        if weight is not None and weight.const is not None and np.abs(weight.const).max(initial=0) >= LARGEST:
            return None
        new.bind(other.outputs, new.graph.append_copy(other, inputs))
    new.graph.outputs = [v for v in map(new.mapped, graph.outputs) if v is not None]
    return new.graph


def _is_linear(op: Op) -> bool:
    return op in PRODUCTS and all(v is None or v.const is not None for v in op.inputs[1:])


class _Groups:
    """Groups of values that must be scaled by the same number. None belongs to the group that cannot be scaled."""

    def __init__(self, graph: Graph) -> None:
        self._parents: dict[Value | None, Value | None] = {}
        for v in (*graph.inputs, *graph.outputs):
            self._join(None, v)
        for op in graph.ops:
            computed = [v for v in op.inputs if v is not None and v.const is None]
            if _is_linear(op):
                continue
            plain = all(v.dtype.kind == "f" for v in op.outputs)
            first = op in HOMOGENEOUS and plain and computed == op.inputs[:1]
            free = first or (op in HOMOGENEOUS_TOGETHER and computed == op.inputs)
            for v in (*computed, *op.outputs):
                self._join(op.outputs[0] if free else None, v)

    def of(self, value: Value | None) -> Value | None:
        """Return the value that identifies the group of a value: one of the group, or None."""
        while value in self._parents:
            value = self._parents[value]
        return value

    def _join(self, a: Value | None, b: Value | None) -> None:
        a, b = self.of(a), self.of(b)
        if a is not b:
            a, b = (b, a) if a is not None and b is None else (a, b)
            self._parents[b] = a


# ---- parts that become layers on the CPU


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
        results = graph.append_copy(op, [None if v is None else values[v] for v in op.inputs])
        values.update(zip(op.outputs, results))
    graph.outputs = [values[v] for v in outputs]
    graph.drop_dead()
    return graph


def mean(op: Op) -> Graph:
    """Return the graph of the mean of a map, for a global pooling."""
    graph, y = Graph(), op.outputs[0]
    x = graph.input("x", op.first.shape, y.dtype)
    axes = graph.constant(np.array([2, 3]))
    graph.outputs = graph.emit("ReduceMean", [x, axes], [(y.shape, y.dtype)], {"keepdims": 1}, scope=op.scope)
    return graph
