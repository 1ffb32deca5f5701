"""Intervals of values: which numbers a value of a graph can hold, proved from its operators.

They show that an index is in range, that a sum fits 32 bits, or that a divisor is positive.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.graph.expressions import bounds
from anylayer.graph.facts import Producers, number, producer, reduced_axes, shifted_exponential
from anylayer.graph.guards import current_trace
from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.operators import EXTREMES, SELECTS
from anylayer.graph.sizes import Dim
from anylayer.graph.symbolic import Size
from anylayer.network import DType

Number = int | float
Interval = tuple[Number, Number]
"""(lowest, highest), both included. NaN is ignored."""

INT32: Interval = (-(2**31), 2**31 - 1)
_ANY: Interval = (-math.inf, math.inf)
_NOT_NEGATIVE: Interval = (0, math.inf)
_DEPTH = 20
_RANGE_DIGITS = 8 * float(np.finfo(np.float32).eps)
"""The rounding of float32 of a function with a limited range, relative to that range. The error of ONNX Runtime's
Sigmoid is 9e-8."""


def of_dtype(dtype: DType) -> Interval:
    """Return the interval of all values of a dtype."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return int(info.min), int(info.max)
    return _ANY


def is_wide(dtype: DType) -> bool:
    """Return whether a dtype holds integers of 64 bits."""
    return dtype.kind in "iu" and dtype.itemsize == 8


def inside(inner: Interval, outer: Interval) -> bool:
    """Return whether one interval lies in another."""
    return outer[0] <= inner[0] and inner[1] <= outer[1]


def range_rounding(value: Value, producers: Producers, largest: float = math.inf) -> float:
    """Return the rounding of float32 in the range of a value, such as 0 to 1 after a sigmoid.

    It is 0.0 for other dtypes, and where the range contains a larger absolute value than `largest`, or any value.
    """
    end = max(map(abs, Intervals(producers).of(value)))
    return _RANGE_DIGITS * end if value.dtype == np.float32 and end <= largest and math.isfinite(end) else 0.0


class Intervals:
    """The intervals of a graph's values.

    producers: the operator that produces each value.
    narrow: for an engine that computes all integers in 32 bits and checks in each run that they fit. Integers of
        64 bits that are inputs or results of operators are then assumed to fit 32 bits. `before` returns the
        interval without that assumption.
    inputs: the intervals of values that no operator produces.
    """

    def __init__(
        self, producers: Producers, *, narrow: bool = False, inputs: Mapping[Value, Interval] | None = None
    ) -> None:
        self.producers, self.is_narrow = producers, narrow
        self._intervals: dict[Value, Interval] = {**(inputs or {})}
        self._before: dict[Value, Interval] = {}
        self._depth = 0

    def of_all(self, ops: Iterable[Op]) -> Intervals:
        """Compute the intervals of all outputs of `ops`, which are in computing order, and return this object."""
        for op in ops:
            for value in op.outputs:
                self.of(value)
        return self

    def of(self, value: Value) -> Interval:
        """Return the interval of a value.

        Follows at most 20 operators whose intervals are not computed yet; for a value before them, the interval of
        its dtype is used.
        """
        interval = self._intervals.get(value)
        if interval is not None:
            return interval
        if value.const is not None:
            interval = self._intervals[value] = _constant(value)
            return interval
        limit = of_dtype(value.dtype)
        op = producer(self.producers, value)
        if self._depth == _DEPTH:
            return self._within(limit, value.dtype)
        self._depth += 1
        interval = limit if op is None else self._of(op, value)
        self._depth -= 1
        if op is not None or value in self.producers:
            self._before[value] = interval
        held = _intersection(interval, limit)
        if value.dtype.kind in "iu" and not is_wide(value.dtype) and not inside(interval, limit):
            held = limit  # a number outside the dtype may become any value of the dtype
        interval = self._intervals[value] = self._within(held, value.dtype)
        return interval

    def before(self, value: Value) -> Interval:
        """Return the interval that a value would have if its dtype had no limits."""
        self.of(value)
        return self._before.get(value) or self.of(value)

    def lowest(self, value: Value | None) -> Number:
        """Return a number that no element of a value is below; -inf for an absent value."""
        return -math.inf if value is None else self.of(value)[0]

    def _within(self, interval: Interval, dtype: DType) -> Interval:
        return _intersection(interval, INT32) if self.is_narrow and is_wide(dtype) else interval

    def _of(self, op: Op, value: Value) -> Interval:
        if op.op == "TopK" and value is op.outputs[1]:
            return _positions(op.inputs[0], op["axis"])
        if op.op == "MaxPool" and value is not op.outputs[0]:
            return of_dtype(value.dtype)
        if op in SELECTS or op in EXTREMES:
            return self.of(op.first)
        rule = _RULES.get(op.op)
        return of_dtype(value.dtype) if rule is None else rule(self, op)

    def all_of(self, op: Op) -> list[Interval]:
        """Return the intervals of an operator's inputs."""
        return [_ANY if v is None else self.of(v) for v in op.inputs]


def intervals_of_body(o: Op, body: Graph, intervals: Intervals) -> dict[Value, Interval]:
    """Return the intervals of the inputs of a loop's body, from those of the graph that it is in."""
    count = 2 + o["states"]
    result = {v: intervals.of(w) for v, w in zip(body.inputs[count:], o.inputs[count:]) if w is not None}
    limit = o.input(0)
    result[body.inputs[0]] = 0, max(0, intervals.of(limit)[1] - 1) if limit is not None else INT32[1]
    first = {v: intervals.of(w) for v, w in zip(body.inputs[2:count], o.inputs[2:count]) if w is not None}
    while first:
        inner = Intervals(body.producers, narrow=intervals.is_narrow, inputs={**result, **first}).of_all(body.ops)
        ends = dict(zip(body.inputs[2:count], body.outputs[1:]))
        left = {v: i for v, i in first.items() if inside(inner.before(ends[v]), i)}
        if len(left) == len(first):
            break
        first = left
    return {**result, **first}


def _intersection(a: Interval, b: Interval) -> Interval:
    low, high = max(a[0], b[0]), min(a[1], b[1])
    return (low, high) if low <= high else b


def _union(parts: Sequence[Interval]) -> Interval:
    return min(p[0] for p in parts), max(p[1] for p in parts)


def _constant(value: Value) -> Interval:
    data = value.const
    if data is None or data.size == 0:
        return of_dtype(value.dtype)
    low, high = data.min(), data.max()
    if data.dtype.kind == "f":
        return (float(low), float(high)) if np.isfinite(low) and np.isfinite(high) else _ANY
    return int(low), int(high)


def _size(dim: Any) -> Number:
    if type(dim) is Size:
        trace = current_trace.get()
        return math.inf if trace is None else bounds(dim.expression, trace.ranges)[1]
    return dim.maximum if isinstance(dim, Dim) else int(dim) if isinstance(dim, (int, np.integer)) else math.inf


def _positions(value: Value | None, axis: int) -> Interval:
    return _ANY if value is None else (0, _size(value.shape[axis]) - 1)


def _product(a: Interval, b: Interval) -> Interval:
    ends = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(ends), max(ends)


def _fold(function: Callable[[Interval, Interval], Interval]) -> Callable[[Intervals, Op], Interval]:
    def rule(intervals: Intervals, op: Op) -> Interval:
        parts = intervals.all_of(op)
        result = parts[0]
        for other in parts[1:]:
            result = function(result, other)
        return result

    return rule


def _of_first(function: Callable[[Number, Number], Interval]) -> Callable[[Intervals, Op], Interval]:
    """Return the rule of an operator whose interval follows from the ends of its first input's interval."""
    return lambda intervals, op: function(*intervals.of(op.first))


def _cast(intervals: Intervals, op: Op) -> Interval:
    low, high = intervals.of(op.first)
    if op.outputs[0].dtype.kind == "f":
        return low, high
    return math.trunc(low) if low > -math.inf else low, math.trunc(high) if high < math.inf else high


def _clip(intervals: Intervals, op: Op) -> Interval:
    low, high = intervals.of(op.first)
    lower, upper = [*op.inputs[1:3], None, None][:2]
    lowest = intervals.lowest(lower)
    highest = intervals.of(upper)[1] if upper is not None else math.inf
    return max(low, lowest), max(min(high, highest), lowest)


def _mod(intervals: Intervals, op: Op) -> Interval:
    low, high = intervals.all_of(op)[1]
    if op["fmod"] or low <= 0:
        return of_dtype(op.outputs[0].dtype)
    return 0, high - 1 if op.outputs[0].dtype.kind in "iu" else high


def _div(intervals: Intervals, op: Op) -> Interval:
    top, bottom = intervals.all_of(op)
    if bottom[0] < 1:
        return of_dtype(op.outputs[0].dtype)
    return min(top[0], 0), max(top[1], 0)


def _range(intervals: Intervals, op: Op) -> Interval:
    start, limit, delta = intervals.all_of(op)
    if op.outputs[0].dtype.kind == "f" or delta[0] <= 0:
        return of_dtype(op.outputs[0].dtype)
    return start[0], max(start[1], limit[1] - 1)


def _sum(intervals: Intervals, op: Op) -> Interval:
    """Return the interval of sums of any number of the elements."""
    low, high = intervals.of(op.first)
    count = math.prod(_size(d) for d in op.first.shape)
    return min(low * count, 0) if low else 0, max(high * count, 0) if high else 0


def _reduce_sum(intervals: Intervals, op: Op) -> Interval:
    """Return the interval of a ReduceSum: at least 1 for a sum of exp(x - max(x)), of which one term is 1."""
    low, high = _sum(intervals, op)
    axes, x = reduced_axes(op), op.first
    if axes is None or not all(isinstance(d, int) and d for d in x.shape):
        return low, high
    shifted = shifted_exponential(intervals.producers, x)
    if shifted is not None and shifted[1] == sorted(axes):
        return 1, max(high, 1)
    return max(low, _lower_bound(intervals.of(x)[0])), high


def _lower_bound(low: Number) -> Number:
    """Return a lower bound that rounding in float32 cannot fall below."""
    return low if low <= 0 else low * 0.999


def _multiply(intervals: Intervals, op: Op) -> Interval:
    low, high = _fold(_product)(intervals, op)
    return (max(low, 0), high) if op.inputs[0] is op.inputs[1] else (low, high)


def _power(intervals: Intervals, op: Op) -> Interval:
    exponent, low = number(op.inputs[1]), intervals.of(op.first)[0]
    if op.outputs[0].dtype.kind == "f" and exponent == 2:
        return _NOT_NEGATIVE
    if op.outputs[0].dtype.kind != "f" or exponent is None or not (low > 0 and 0 < exponent < 10):
        return of_dtype(op.outputs[0].dtype)
    return _lower_bound(low**exponent), math.inf


def _sum_of_products(intervals: Intervals, op: Op) -> Interval:
    lows = [interval[0] for v, interval in zip(op.inputs, intervals.all_of(op)) if v is not None]
    floats = op.outputs[0].dtype.kind == "f"
    return _NOT_NEGATIVE if floats and min(lows) >= 0 else of_dtype(op.outputs[0].dtype)


def _resize(intervals: Intervals, op: Op) -> Interval:
    """Return the interval of a nearest or linear Resize. A cubic one exceeds its input's interval."""
    if op["mode"] == "cubic":
        return of_dtype(op.outputs[0].dtype)
    return _lower_bound(min(intervals.of(op.first)[0], op["extrapolation_value"])), math.inf


def _abs(low: Number, high: Number) -> Interval:
    return 0 if low <= 0 <= high else min(abs(low), abs(high)), max(abs(low), abs(high))


def _whole_ends(low: Number, high: Number) -> Interval:
    return math.floor(low) if low > -math.inf else low, math.ceil(high) if high < math.inf else high


_RULES: dict[str, Callable[[Intervals, Op], Interval]] = {
    "Add": _fold(lambda a, b: (a[0] + b[0], a[1] + b[1])),
    "Sub": _fold(lambda a, b: (a[0] - b[1], a[1] - b[0])),
    "Mul": _multiply,
    "Max": _fold(lambda a, b: (max(a[0], b[0]), max(a[1], b[1]))),
    "Min": _fold(lambda a, b: (min(a[0], b[0]), min(a[1], b[1]))),
    "Concat": lambda intervals, op: _union(intervals.all_of(op)),
    "Where": lambda intervals, op: _union(intervals.all_of(op)[1:]),
    "ScatterElements": lambda intervals, op: _union(intervals.all_of(op)[::2]),
    "ScatterND": lambda intervals, op: _union(intervals.all_of(op)[::2]),
    "Pad": lambda intervals, op: _union([(0, 0), *(intervals.of(v) for v in op.inputs[:3:2] if v is not None)]),
    "Neg": _of_first(lambda low, high: (-high, -low)),
    "Range": _range,
    "Abs": _of_first(_abs),
    "Relu": _of_first(lambda low, high: (max(low, 0), max(high, 0))),
    **dict.fromkeys(("Sigmoid", "HardSigmoid", "Softmax"), lambda intervals, op: (0, 1)),
    "Cast": _cast,
    "Clip": _clip,
    "Mod": _mod,
    "Div": _div,
    "ReduceSum": _reduce_sum,
    **dict.fromkeys(
        ("ReduceMean", "GlobalAveragePool"), _of_first(lambda low, high: (_lower_bound(low), math.inf))
    ),
    "AveragePool": _of_first(lambda low, high: (min(low, 0), math.inf)),  # also of the zeros around the elements
    "Resize": _resize,
    **dict.fromkeys(("Conv", "ConvTranspose", "MatMul"), _sum_of_products),
    "Pow": _power,
    "Sqrt": _of_first(lambda low, high: (_lower_bound(math.sqrt(max(low, 0))), math.inf)),
    **dict.fromkeys(("Floor", "Ceil", "Round"), _of_first(_whole_ends)),
    **dict.fromkeys(("Exp", "Softplus"), lambda intervals, op: _NOT_NEGATIVE),
    "CumSum": _sum,
    "ArgMax": lambda intervals, op: _positions(op.inputs[0], op["axis"]),
    "ArgMin": lambda intervals, op: _positions(op.inputs[0], op["axis"]),
    "NonZero": lambda intervals, op: (0, max((_size(d) for d in op.first.shape), default=1) - 1),
    "Shape": lambda intervals, op: (0, max((_size(d) for d in op.first.shape), default=1)),
    "NonMaxSuppression": lambda intervals, op: (-1, max(_size(d) for d in op.first.shape) - 1),
}
