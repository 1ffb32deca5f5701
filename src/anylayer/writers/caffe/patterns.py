"""Fuse operators that together compute one ONNX operator with a Caffe layer of its own.

Layers record Softmax, PRelu, Softplus and Swish as several operators, because engines run those faster.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import Producers, producer, reduced_axes

Fused = tuple[str, list[Value | None], dict[str, Any]]
"""An operator that replaces several: its name, inputs and attributes."""


def fuse_patterns(graph: Graph) -> Graph:
    """Replace each match of a pattern by one operator, in place, and return the graph."""
    producers = {v: o for o in graph.ops for v in o.outputs}
    for i, op in enumerate(graph.ops):
        for pattern in _PATTERNS.get(op.op, ()):
            found = None if op.domain else pattern(op, producers)
            if found is not None:
                name, inputs, attrs = found
                graph.ops[i] = Op(name, inputs, op.outputs, attrs, op.place, op.scope)
                break
    graph.drop_dead()
    return graph


def _softmax(op: Op, producers: Producers) -> Fused | None:
    """Match Softmax: exp(x - max(x)) / sum(exp(x - max(x)))."""
    e = producer(producers, op.inputs[0], "Exp")
    total = producer(producers, op.inputs[1], "ReduceSum")
    less = producer(producers, e.inputs[0], "Sub") if e is not None else None
    top = producer(producers, less.inputs[1], "ReduceMax") if less is not None else None
    if e is None or total is None or less is None or top is None:
        return None
    same = total.inputs[0] is e.outputs[0] and top.inputs[0] is less.inputs[0]
    axes = reduced_axes(total)
    if not same or axes is None or len(axes) != 1 or reduced_axes(top) != axes:
        return None
    return "Softmax", [less.inputs[0]], {"axis": axes[0]}


def _input_by_and_other(op: Op, name: str, producers: Producers) -> tuple[Op, Value | None] | None:
    """Return the producer of that input of a binary operator which operator `name` produces, and the other
    input."""
    for i, j in ((0, 1), (1, 0)):
        found = producer(producers, op.inputs[i], name)
        if found is not None:
            return found, op.inputs[j]
    return None


def _prelu(op: Op, producers: Producers) -> Fused | None:
    """Match PRelu: relu(x) + (x - relu(x)) * slope, with a constant slope."""
    pair = _input_by_and_other(op, "Relu", producers)
    scaled = producer(producers, pair[1], "Mul") if pair is not None else None
    part = _input_by_and_other(scaled, "Sub", producers) if scaled is not None else None
    if pair is None or part is None or part[1] is None or part[1].const is None:
        return None
    relu, below = pair[0], part[0]
    if below.inputs[0] is not relu.inputs[0] or below.inputs[1] is not relu.outputs[0]:
        return None
    return "PRelu", [relu.inputs[0], part[1]], {}


def _softplus(op: Op, producers: Producers) -> Fused | None:
    """Match Softplus: relu(x) + log(exp(-|x|) + 1)."""
    pair = _input_by_and_other(op, "Relu", producers)
    log = producer(producers, pair[1], "Log") if pair is not None else None
    one_more = producer(producers, log.inputs[0], "Add") if log is not None else None
    part = _input_by_and_other(one_more, "Exp", producers) if one_more is not None else None
    negative = producer(producers, part[0].inputs[0], "Neg") if part is not None else None
    size = producer(producers, negative.inputs[0], "Abs") if negative is not None else None
    if pair is None or part is None or size is None or size.inputs[0] is not pair[0].inputs[0]:
        return None
    one = part[1].const if part[1] is not None else None
    return ("Softplus", [size.inputs[0]], {}) if one is not None and bool(np.all(one == 1)) else None


def _swish(op: Op, producers: Producers) -> Fused | None:
    """Match Swish: x * sigmoid(x). (Swish is no operator of ONNX; elementwise.py writes it.)"""
    pair = _input_by_and_other(op, "Sigmoid", producers)
    if pair is None or pair[0].inputs[0] is not pair[1]:
        return None
    return "Swish", [pair[1]], {}


_PATTERNS: dict[str, tuple[Callable[[Op, Producers], Fused | None], ...]] = {
    "Div": (_softmax,),
    "Add": (_prelu, _softplus),
    "Mul": (_swish,),
}
