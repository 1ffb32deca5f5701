"""Below which number the values of a graph cannot lie: ncnn divides, and takes powers, right only above 0."""

from __future__ import annotations

import math

import numpy as np

from anylayer.graph import Graph, Op, Value
from anylayer.graph.facts import producer

_PASS = frozenset(
    [
        *("Identity", "Reshape", "Transpose", "Slice", "Split", "Expand", "MaxPool"),
        *("ReduceMax", "ReduceMin", "ReduceMean", "GlobalAveragePool"),
    ]
)
_FROM_ZERO = frozenset(["Exp", "Relu", "Abs", "Sigmoid", "Softmax"])


class Bounds:
    """A number for each value that nothing in it is below, -inf where none is known. NaN does not count."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._known: dict[Value, float] = {}
        for op in graph.ops:
            self._known.update(dict.fromkeys(op.outputs, self._of(op)))

    def lowest(self, value: Value | None) -> float:
        if value is None:
            return -math.inf
        found = self._known.get(value)
        if found is None:
            data = value.const
            plain = data is not None and data.dtype.kind == "f" and data.size
            found = self._known[value] = float(np.min(data)) if plain else -math.inf  # type: ignore[arg-type]
        return found

    def _of(self, op: Op) -> float:
        if op.op in _FROM_ZERO or (op.op == "Mul" and op.inputs[0] is op.inputs[1]):
            return 0.0
        if op.op == "Sqrt":
            return math.sqrt(max(self.lowest(op.inputs[0]), 0.0))
        if op.op in _PASS:
            return self.lowest(op.inputs[0])
        if op.op in ("AveragePool", "Pad"):
            return min(self.lowest(op.inputs[0]), 0.0)
        if op.op == "ReduceSum":
            least = self.lowest(op.inputs[0])
            return 1.0 if self._is_softmax(op) else least if least >= 0 else -math.inf
        if op.op in ("Add", "Mul", "Max", "Min", "Concat", "Conv", "Pow"):
            return _combined(op, [self.lowest(v) for v in op.inputs])
        return -math.inf

    def _is_softmax(self, op: Op) -> bool:
        """Whether a sum is that of exp(x - max(x)), of which one term is 1."""
        producers = self._graph.producers
        power = producer(producers, op.inputs[0], "Exp")
        shifted = producer(producers, power.inputs[0], "Sub") if power is not None else None
        if shifted is None:
            return False
        top = producer(producers, shifted.inputs[1], "ReduceMax")
        return top is not None and top.inputs[0] is shifted.inputs[0]


def _combined(op: Op, least: list[float]) -> float:
    if op.op == "Add":
        return sum(least)
    if op.op == "Max":
        return max(least)
    if op.op in ("Min", "Concat"):
        return min(least)
    if op.op == "Pow":
        return _power(least[0], op.inputs[1])
    if min(least) < 0:
        return -math.inf
    return math.prod(least) if op.op == "Mul" else 0.0


def _power(base: float, exponent: Value | None) -> float:
    if exponent is None or exponent.const is None or exponent.const.size != 1:
        return -math.inf
    number = float(np.asarray(exponent.const).reshape(()))
    if number == 2:
        return 0.0
    return base**number if 0 < base < math.inf and 0 < number < 10 else -math.inf
