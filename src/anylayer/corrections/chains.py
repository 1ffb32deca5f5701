"""Long chains of elementwise operators, for which OpenVINO (2026.4) needs more registers than a processor has.

OpenVINO compiles each chain to one kernel, whose values are all in registers. With the 16 vector registers of AVX2
it may refuse the whole graph; AVX-512 has 32 of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anylayer.graph import Graph, Op, Value
from anylayer.graph.sizes import Dim, is_static
from anylayer.optimize.rules import Rewriter

REFUSAL = "not enough registers"
"""The end of OpenVINO's message if a chain needs more registers."""

LENGTHS = (16, 8, 4)
"""The lengths to which chains are cut, in this order, until OpenVINO compiles the graph."""
_MAX_REGISTERS = 12
"""The largest number of values that a kernel may hold at the same time in a file. OpenVINO refused kernels on AVX2
from 15 values on."""


def cut_for_file(graph: Graph) -> Graph:
    """Return an equal graph that OpenVINO compiles on every processor, as far as the values that it holds tell.

    The machine that will read a file cannot be asked. A graph that needs few registers is returned as it is.
    """
    shorter, lengths = graph, iter(LENGTHS)
    while _registers(shorter) > _MAX_REGISTERS and (length := next(lengths, 0)):
        shorter = cut(graph, length)
    return shorter


def _registers(graph: Graph) -> int:
    """Return the largest number of values that one kernel of OpenVINO holds at the same time.

    A kernel has the elementwise operators that are connected by their values.
    """
    kernels: dict[Value, list[Op]] = {}
    for o in graph.ops:
        if _may_be_elementwise(o):
            joined = {id(k): k for v in o.inputs if v is not None and (k := kernels.get(v)) is not None}
            kernel = [op for part in joined.values() for op in part] + [o]
            kernels.update({v: kernel for op in kernel for v in op.outputs})
    registers = {id(kernel): kernel for kernel in kernels.values()}
    order = {id(o): i for i, o in enumerate(graph.ops)}
    return max((_most_held(sorted(k, key=lambda o: order[id(o)])) for k in registers.values()), default=0)


def _most_held(ops: Sequence[Op]) -> int:
    """Return the largest number of values between the first and the last operator that uses them."""
    last = {v: i for i, o in enumerate(ops) for v in o.inputs}
    held: set[Value] = set()
    most = 0
    for i, o in enumerate(ops):
        held.update(v for v in (*o.inputs, *o.outputs) if v is not None and v.const is None)
        most = max(most, len(held))
        held = {v for v in held if last.get(v, -1) > i}
    return most


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
                        copies[v] = _copy(new, o, new.values[v])
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


def _copy(new: Rewriter, o: Op, value: Value) -> Value:
    """Return a value after an operator that copies it, before the operator `o`."""
    static = is_static(value.shape)
    line = (1, math.prod(value.shape) if static else Dim("elements", np.iinfo(np.int32).max))
    shape = new.ints(value.shape) if static else new.step(o, "Shape", [value], (len(value.shape),), np.int64)
    flat = new.step(o, "Reshape", [value, new.ints((1, -1))], line, value.dtype)
    copy = new.step(o, "ReverseSequence", [flat, new.ints((1,))], line, value.dtype, batch_axis=0, time_axis=1)
    return new.step(o, "Reshape", [copy, shape], value.shape, value.dtype)
