"""Rows whose number depends on data. Buffers have fixed sizes, so absent rows exist, and hold -1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from anylayer.errors import LayerError, at
from anylayer.generators import Expected
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import integers
from anylayer.graph.sizes import Dim, is_static, stand_for

_MOVES = ("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose")


def with_fixed_sizes(graph: Graph, places: Mapping[str, str]) -> Graph:
    """Return a graph that computes all rows that `ops.head` could return, of which the absent ones hold -1.

    places: the place of each node of the network, by name. Dynamic sizes of another origin are left as they are.
    Raises LayerError for a layer that computes with such rows.
    """
    if all(is_static(v.shape) for op in graph.ops for v in op.outputs):
        return graph
    new = Graph(graph.prefix, graph.scope)
    new.limit = graph.limit
    values: dict[Value, Value] = {v: new.input(v.name, v.shape, v.dtype) for v in graph.inputs}
    padded: set[Value] = set()

    def mapped(value: Value) -> Value:
        if value.const is not None and value not in values:
            values[value] = new.constant(value.const, trusted=True)
        return values[value]

    for op in graph.ops:
        inputs = [None if v is None else mapped(v) for v in op.inputs]
        types = [(v.shape, v.dtype) for v in op.outputs]
        body = None if op.body is None else with_fixed_sizes(op.body, places)
        is_padded = _is_head(op) or not padded.isdisjoint(inputs)
        if _is_head(op):
            made = [_filled(new, op, inputs)]
        elif is_padded:
            moved = op.op in _MOVES and not op.domain and all(v is None or v.const is not None for v in inputs[1:])
            if not moved:
                with at(places.get(op.scope, "")):
                    raise LayerError(
                        "it reads rows whose number depends on data, and buffers of the hardware have fixed "
                        "sizes; end the network before this layer, and compute it in the application"
                    )
            made = new.append_copy(op, inputs, types=[(stand_for(shape), dtype) for shape, dtype in types])
        else:
            if body is not None:
                types = [(v.shape, v.dtype) for v in body.outputs]
            made = new.append_copy(op, inputs, types=types, body=body)
        padded.update(made if is_padded else ())
        values.update(zip(op.outputs, made))
    new.outputs = [mapped(v) for v in graph.outputs]
    return new


def _is_head(op: Op) -> bool:
    """Return whether an operator returns the first rows of an array, whose number depends on data."""
    x, shape = op.inputs[0] if op.inputs else None, op.outputs[0].shape
    if op.op != "Slice" or op.domain or x is None or not is_static(x.shape) or not isinstance(shape[0], Dim):
        return False
    start, axes = integers(op.inputs[1]), integers(op.inputs[3]) if len(op.inputs) > 3 else None
    whole = shape[0].maximum == x.shape[0] and tuple(shape[1:]) == tuple(x.shape[1:])
    return whole and start == [0] and axes == [0] and len(op.inputs) == 4


def _filled(new: Graph, op: Op, inputs: list[Value | None]) -> Value:
    """Append operators that return the rows of a head, followed by rows of -1."""
    x, end = op.inputs[0], inputs[2]
    if x is None:
        raise TypeError(op)
    place, scope = op.place, op.scope
    column = (x.shape[0], *[1] * (len(x.shape) - 1))
    index = new.constant(np.arange(x.shape[0]).reshape(column))
    (exists,) = new.emit("Less", [index, end], [(column, np.bool_)], place=place, scope=scope)
    absent = new.constant(np.array(-1, x.dtype))
    names = [op.outputs[0].name]
    (made,) = new.emit(
        "Where", [exists, inputs[0], absent], [(x.shape, x.dtype)], names=names, place=place, scope=scope
    )
    return made


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
