"""Long chains of elementwise operators, for which OpenVINO (2026.4) needs more registers than a processor has.

OpenVINO compiles each chain to one kernel, whose values are all in registers. With the 16 vector registers of AVX2
it may refuse the whole graph; AVX-512 has 32 of them.
"""

from __future__ import annotations

import math

import numpy as np

from anylayer.graph import Graph, Op, Value
from anylayer.graph.sizes import Dim, is_static
from anylayer.optimize.rules import Rewriter

REFUSAL = "not enough registers"
"""The end of OpenVINO's message if a chain needs more registers."""

LENGTHS = (16, 8, 4)
"""The lengths to which chains are cut, in this order, until OpenVINO compiles the graph."""


def cut(graph: Graph, length: int) -> Graph:
    """Return an equal graph in which OpenVINO compiles at most `length` elementwise operators to one kernel.

    Between two pieces, a value passes through an operator that OpenVINO neither removes nor compiles with others:
    a ReverseSequence of sequences of length 1.
    """
    new = Rewriter(graph)
    piece: dict[Value, int] = {}
    copies: dict[Value, Value] = {}
    count = 0
    for o in graph.ops:
        inputs = [new.mapped(v) for v in o.inputs]
        if _may_be_elementwise(o):
            for i, v in enumerate(o.inputs):
                if v is not None and piece.get(v, count // length) != count // length and v.dtype.kind == "f":
                    if v not in copies:
                        copies[v] = _copied(new, o, new.values[v])
                    inputs[i] = copies[v]
            piece[o.outputs[0]] = count // length
            count += 1
        new.bind(o.outputs, new.graph.append_copy(o, inputs))
    new.graph.outputs = [v for v in map(new.mapped, graph.outputs) if v is not None]
    return new.graph


def _may_be_elementwise(o: Op) -> bool:
    """Return whether an operator has one output, of the rank of an input, and no axes or windows."""
    ranks = [len(v.shape) for v in o.inputs if v is not None]
    plain = not o.domain and o.body is None and all(isinstance(value, (int, float)) for value in o.attrs.values())
    return (
        plain
        and "axis" not in o.attrs
        and len(o.outputs) == 1
        and len(o.outputs[0].shape) == max(ranks, default=-1)
    )


def _copied(new: Rewriter, o: Op, value: Value) -> Value:
    """Return a value after an operator that copies it, before the operator `o`."""
    static = is_static(value.shape)
    line = (1, math.prod(value.shape) if static else Dim("elements", np.iinfo(np.int32).max))
    shape = new.ints(value.shape) if static else new.step(o, "Shape", [value], (len(value.shape),), np.int64)
    flat = new.step(o, "Reshape", [value, new.ints((1, -1))], line, value.dtype)
    copy = new.step(o, "ReverseSequence", [flat, new.ints((1,))], line, value.dtype, batch_axis=0, time_axis=1)
    return new.step(o, "Reshape", [copy, shape], value.shape, value.dtype)
