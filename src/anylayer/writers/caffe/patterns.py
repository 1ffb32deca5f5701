"""Fuse operators that together compute one ONNX operator with a Caffe layer of its own.

Layers record Softmax, PRelu, Softplus and Swish as several operators, because engines run those faster.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from anylayer import ops
from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import Producers, producer, reduced_axes, shifted_exponential
from anylayer.optimize.patterns import Pattern

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
    """Match Softmax: exp(x - max(x)) / sum(exp(x - max(x))) along one axis."""
    total = producer(producers, op.inputs[1], "ReduceSum")
    found = shifted_exponential(producers, op.inputs[0])
    if total is None or found is None or total.inputs[0] is not op.inputs[0]:
        return None
    x, axes = found
    return ("Softmax", [x], {"axis": axes[0]}) if len(axes) == 1 and reduced_axes(total) == axes else None


def _matches(name: str, function: Callable[..., Any], *kinds: str) -> Callable[[Op, Producers], Fused | None]:
    """Return a function that matches a pattern: see optimize.patterns.Pattern."""

    @cache
    def pattern() -> Pattern:
        return Pattern.of(function, kinds)

    def match(op: Op, producers: Producers) -> Fused | None:
        values = pattern().match(producers, op)
        return None if values is None else (name, [*values], {})

    return match


_PATTERNS: dict[str, tuple[Callable[[Op, Producers], Fused | None], ...]] = {
    "Div": (_softmax,),
    "Add": (
        _matches("PRelu", lambda x, slope: ops.relu(x) + (x - ops.relu(x)) * slope, "array", "constant"),
        _matches("Softplus", ops.softplus, "array"),
    ),
    "Mul": (_matches("Swish", lambda x: x * ops.sigmoid(x), "array"),),
}
"""Operator -> the patterns whose result it computes. (Swish is not an ONNX operator; elementwise.py writes it.)"""
