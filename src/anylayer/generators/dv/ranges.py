"""Values beyond the range of 16-bit floats. Layers may compute them divided by a power of two, if the weights of
the layers that read them undo this.
"""

from __future__ import annotations

import math

import numpy as np

from anylayer.errors import LayerError
from anylayer.generators.dv.weights import LARGEST
from anylayer.graph import Graph, Op, Value

_TARGET = 2.0**14
"""The largest value that a layer computes after it was scaled. Other inputs may give four times larger ones."""
_LINEAR = ("Conv", "ConvTranspose", "Gemm", "MatMul")
_HOMOGENEOUS = (
    *("Relu", "LeakyRelu", "PRelu", "MaxPool", "AveragePool", "GlobalAveragePool"),
    *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Identity", "Transpose", "Slice", "Split"),
)
"""Operators that multiply their outputs by a positive number if their first input is multiplied by it."""
_SUMS = ("Add", "Sub", "Max", "Concat")
"""Operators that multiply their outputs by a number if all their inputs are multiplied by it."""


class TooLarge(LayerError):
    """The error of a layer whose values 16-bit floats cannot hold. `op` computes them, and `largest` is the
    largest one.
    """

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
    new = Graph(graph.prefix, graph.scope)
    new.limit = graph.limit
    values: dict[Value, Value] = {v: new.input(v.name, v.shape, v.dtype) for v in graph.inputs}

    def mapped(value: Value, times: int) -> Value:
        if value.const is None:
            return values[value]
        array = value.const if times == 0 else np.ldexp(value.const, times).astype(value.dtype)
        return new.constant(array, trusted=True)

    for other in graph.ops:
        into, out = (exponent * (groups.of(v) is group) for v in (other.inputs[0], other.outputs[0]))
        changes = [0, into - out, -out] if _is_linear(other) else []
        inputs = [
            None if v is None else mapped(v, changes[i] if i < len(changes) else 0)
            for i, v in enumerate(other.inputs)
        ]
        weight = inputs[1] if changes else None
        if weight is not None and weight.const is not None and np.abs(weight.const).max(initial=0) >= LARGEST:
            return None
        values.update(zip(other.outputs, new.append_copy(other, inputs)))
    new.outputs = [mapped(v, 0) for v in graph.outputs]
    return new


def _is_linear(op: Op) -> bool:
    return op.op in _LINEAR and not op.domain and all(v is None or v.const is not None for v in op.inputs[1:])


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
            first = op.op in _HOMOGENEOUS and len(computed) == 1
            free = not op.domain and (first or (op.op in _SUMS and len(computed) == len(op.inputs)))
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
