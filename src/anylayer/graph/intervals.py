"""The interval in which a value of a graph lies. It shows that an index is in range, that a sum fits 32 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.sizes import Dim

Number = int | float
Interval = tuple[Number, Number]
"""(least, largest), both included. Values that are NaN do not count."""

INT32: Interval = (-(2**31), 2**31 - 1)
_ANY: Interval = (-math.inf, math.inf)
_DEPTH = 20
_SAME = frozenset(
    (
        *("Identity", "Reshape", "Transpose", "Slice", "Squeeze", "Unsqueeze", "Expand", "Tile", "Flatten"),
        *("Gather", "GatherElements", "GatherND", "ReduceMax", "ReduceMin", "Split", "MaxPool", "DepthToSpace"),
        *("Floor", "Ceil", "Round", "SpaceToDepth"),
    )
)
"""Operators whose results lie between the least and the largest value of their first input, rounded outwards."""


def of_dtype(dtype: np.dtype[Any]) -> Interval:
    """Return the interval of all values of a dtype."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    return _ANY


def is_wide(dtype: np.dtype[Any]) -> bool:
    """Return whether a dtype is of integers of 64 bits."""
    return dtype.kind in "iu" and dtype.itemsize == 8


def inside(inner: Interval, outer: Interval) -> bool:
    """Return whether one interval lies in another."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


class Intervals:
    """The intervals of a graph's values.

    `narrow` is for an engine that computes all integers in 32 bits and checks in every run that they fit: integers
    of inputs, and integers that operators give, are taken to do so. `before` gives the interval without that.
    """

    def __init__(self, graph: Graph, *, narrow: bool = False) -> None:
        self._graph, self._narrow = graph, narrow
        self._known: dict[Value, Interval] = {}
        self._before: dict[Value, Interval] = {}
        self._depth = 0

    def of_all(self) -> Intervals:
        """Find the intervals of all values, in computing order."""
        for op in self._graph.ops:
            for value in op.outputs:
                self.of(value)
        return self

    def of(self, value: Value) -> Interval:
        """Return the interval of a value; that of its dtype where it takes more than 20 operators to find out."""
        found = self._known.get(value)
        if found is not None:
            return found
        if value.const is not None:
            found = self._known[value] = _constant(value)
            return found
        limit = of_dtype(value.dtype)
        producer = self._graph.producers.get(value)
        if self._depth == _DEPTH:
            return self._within(limit, value.dtype)
        self._depth += 1
        found = limit if producer is None or producer.domain else self._of(producer, value)
        self._depth -= 1
        if producer is not None:
            self._before[value] = found
        found = self._known[value] = self._within(_meet(found, limit), value.dtype)
        return found

    def before(self, value: Value) -> Interval:
        """Return the interval that a value would have if its dtype had no limits."""
        self.of(value)
        return self._before.get(value) or self.of(value)

    def _within(self, found: Interval, dtype: np.dtype[Any]) -> Interval:
        return _meet(found, INT32) if self._narrow and is_wide(dtype) else found

    def _of(self, op: Op, value: Value) -> Interval:
        if op.op == "TopK" and value is op.outputs[1]:
            return _positions(op.inputs[0], op.attrs.get("axis", -1))
        if op.op in _SAME or op.op == "TopK":
            low, high = self.of(_first(op))
            return math.floor(low) if low > -math.inf else low, math.ceil(high) if high < math.inf else high
        rule = _RULES.get(op.op)
        return of_dtype(value.dtype) if rule is None else rule(self, op)

    def all_of(self, op: Op) -> list[Interval]:
        """Return the intervals of an operator's inputs."""
        return [_ANY if v is None else self.of(v) for v in op.inputs]


def _meet(a: Interval, b: Interval) -> Interval:
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else b


def _join(parts: Sequence[Interval]) -> Interval:
    return min(p[0] for p in parts), max(p[1] for p in parts)


def _first(op: Op) -> Value:
    value = op.inputs[0]
    if value is None:
        raise ValueError(f"{op.op} without its first input")
    return value


def _constant(value: Value) -> Interval:
    data = value.const
    if data is None or data.size == 0:
        return of_dtype(value.dtype)
    low, high = data.min(), data.max()
    if data.dtype.kind == "f":
        return (float(low), float(high)) if np.isfinite(low) and np.isfinite(high) else _ANY
    return int(low), int(high)


def _size(dim: Any) -> Number:
    return dim.maximum if isinstance(dim, Dim) else int(dim) if isinstance(dim, (int, np.integer)) else math.inf


def _positions(value: Value | None, axis: int) -> Interval:
    return _ANY if value is None else (0, _size(value.shape[axis]) - 1)


def _product(a: Interval, b: Interval) -> Interval:
    ends = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(ends), max(ends)


def _binary(function: Callable[[Interval, Interval], Interval]) -> Callable[[Intervals, Op], Interval]:
    def rule(known: Intervals, op: Op) -> Interval:
        found = known.all_of(op)
        result = found[0]
        for other in found[1:]:
            result = function(result, other)
        return result

    return rule


def _cast(known: Intervals, op: Op) -> Interval:
    low, high = known.of(_first(op))
    if op.outputs[0].dtype.kind == "f":
        return low, high
    return math.trunc(low) if low > -math.inf else low, math.trunc(high) if high < math.inf else high


def _clip(known: Intervals, op: Op) -> Interval:
    low, high = known.of(_first(op))
    lower, upper = [*op.inputs[1:3], None, None][:2]
    least = known.of(lower)[0] if lower is not None else -math.inf
    most = known.of(upper)[1] if upper is not None else math.inf
    return max(low, least), max(min(high, most), least)


def _mod(known: Intervals, op: Op) -> Interval:
    low, high = known.all_of(op)[1]
    if op.attrs.get("fmod") or low <= 0:
        return of_dtype(op.outputs[0].dtype)
    return 0, high - 1 if op.outputs[0].dtype.kind in "iu" else high


def _div(known: Intervals, op: Op) -> Interval:
    top, bottom = known.all_of(op)
    if bottom[0] < 1:
        return of_dtype(op.outputs[0].dtype)
    return min(top[0], 0), max(top[1], 0)


def _sum(known: Intervals, op: Op) -> Interval:
    """Return the interval of sums of at most all values."""
    low, high = known.of(_first(op))
    count = math.prod(_size(d) for d in _first(op).shape)
    return min(low * count, 0) if low else 0, max(high * count, 0) if high else 0


def _abs(known: Intervals, op: Op) -> Interval:
    low, high = known.of(_first(op))
    return 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))


_RULES: dict[str, Callable[[Intervals, Op], Interval]] = {
    "Add": _binary(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    "Sub": _binary(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    "Mul": _binary(_product),
    "Max": _binary(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    "Min": _binary(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    "Concat": lambda known, op: _join(known.all_of(op)),
    "Where": lambda known, op: _join(known.all_of(op)[1:]),
    "ScatterElements": lambda known, op: _join(known.all_of(op)[::2]),
    "ScatterND": lambda known, op: _join(known.all_of(op)[::2]),
    "Pad": lambda known, op: _join([known.of(_first(op)), *known.all_of(op)[2:3], (0, 0)]),
    "Neg": lambda known, op: (-known.of(_first(op))[1], -known.of(_first(op))[0]),
    "Abs": _abs,
    "Relu": lambda known, op: (max(known.of(_first(op))[0], 0), max(known.of(_first(op))[1], 0)),
    "Sigmoid": lambda known, op: (0, 1),
    "Softmax": lambda known, op: (0, 1),
    "Cast": _cast,
    "Clip": _clip,
    "Mod": _mod,
    "Div": _div,
    "ReduceSum": _sum,
    "CumSum": _sum,
    "ArgMax": lambda known, op: _positions(op.inputs[0], op.attrs.get("axis", 0)),
    "ArgMin": lambda known, op: _positions(op.inputs[0], op.attrs.get("axis", 0)),
    "NonZero": lambda known, op: (0, max((_size(d) for d in _first(op).shape), default=1) - 1),
    "Shape": lambda known, op: (0, max((_size(d) for d in _first(op).shape), default=1)),
    "NonMaxSuppression": lambda known, op: (-1, max(_size(d) for d in _first(op).shape) - 1),
}
