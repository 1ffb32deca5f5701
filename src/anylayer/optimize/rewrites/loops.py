"""Loops that select elements, such as NMS: fewer steps, and one operator in place of the loop."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from anylayer.graph.facts import integers, number
from anylayer.graph.ir import Op, Value
from anylayer.graph.sizes import Dim, stand_for
from anylayer.network import Array
from anylayer.optimize.greedy import Greedy
from anylayer.optimize.per_element import LoopExpressions, Unknown
from anylayer.optimize.rules import Rewriter, rule


@rule("Loop", stage="raise", figure="6000 boxes, NMS to 300, ms: ONNX Runtime 153 -> 13, OpenVINO 125 -> 11")
def _no_more_steps_than_are_read(new: Rewriter, o: Op) -> Op | None:
    """End a greedy selection after the elements that its consumers read: `keep[:300]` needs 300 steps."""
    greedy = Greedy.of(new, o)
    read = None if greedy is None else _read(new, greedy)
    if read is None or (before := _limits(new, o.input(0))) is None or min(before, default=read + 1) <= read:
        return None
    most = new.constant(np.array(read, np.int64))
    limit = o.input(0)
    if limit is not None and limit.const is None:
        most = new.step(o, "Min", [limit, most], (), np.int64)
    return Op(o.op, [most, *o.inputs[1:]], o.outputs, o.attrs, o.place, o.scope, body=o.body)


def _limits(new: Rewriter, limit: Value | None) -> list[float] | None:
    """Return the constant numbers that limit the steps of a loop. None where the limit is not a number."""
    if limit is None or len(limit.shape):
        return None if limit is not None else []
    values = [limit, *(new.operands(limit, "Min") or [])]
    return [n for v in values if (n := number(v)) is not None]


def _read(new: Rewriter, greedy: Greedy) -> int | None:
    """Return how many of the elements that are taken the consumers of the mask read at most, None for all."""
    mask = greedy.loop.outputs[1]
    consumers = new.old_consumers(mask)
    if not consumers or any(c.op != "Compress" or c["axis"] != 0 or c.first is mask for c in consumers):
        return None
    ends = [e for c in consumers for e in _ends(new, c.outputs[0], 0, greedy.last)]
    return None if not ends or None in ends else max(1, *(e for e in ends if e is not None))


def _ends(new: Rewriter, rows: Value, before: int, reverse: bool) -> Iterator[int | None]:
    """Yield, per consumer of rows, how many of them it reads at most.

    before: the number of rows that are concatenated before them. reverse: whether they are in reverse order.
    """
    for o in new.old_consumers(rows) or (None,):
        if o is None or o.domain:
            yield None
        elif o.op == "Shape":
            yield from _end_of_count(new, o.outputs[0], before)
        elif o.op == "Concat" and o["axis"] == 0 and o.inputs[-1] is rows and not reverse:
            sizes = [v.shape[0] for v in o.inputs[:-1] if v is not None]
            if all(type(n) is int for n in sizes) and o.inputs.count(rows) == 1:
                yield from _ends(new, o.outputs[0], before + sum(sizes), reverse)
            else:
                yield None
        elif o.op == "Slice" and o.first is rows and integers(o.input(3)) == [0]:
            start, end, step = (integers(o.input(i)) for i in (1, 2, 4))
            from_last = start == [-1] or _before_last(new, o.input(1)) is rows
            if reverse and step == [-1] and from_last and end is not None and end[0] < -(2**31) + 2:
                yield from _ends(new, o.outputs[0], before, False)
            else:
                limits = [end] if end else [integers(v) for v in _old_operands(new, o.input(2), "Min")]
                numbers = [e[0] for e in limits if e and len(e) == 1 and e[0] >= 0]
                yield min(numbers) - before if numbers and start == [0] and step == [1] and not reverse else None
        else:
            yield None


def _end_of_count(new: Rewriter, count: Value, before: int) -> Iterator[int | None]:
    """Yield, per consumer of a number of rows, from how many rows on it computes the same for all numbers."""
    for o in new.old_consumers(count) or (None,):
        if o is None or o.domain:
            yield None
            continue
        others = [v for v in o.inputs if v is not count]
        numbers = [number(v) for v in others]
        if _is_start_of_reversal(new, o):
            continue
        if o.op == "Min" and any(n is not None for n in numbers):
            yield int(min(n for n in numbers if n is not None)) - before
        elif o.op == "Add" and len(others) == 1 and numbers[0] is not None:
            yield from _end_of_count(new, o.outputs[0], before + int(numbers[0]))
        elif o.op in ("Squeeze", "Reshape") and o.first is count:
            yield from _end_of_count(new, o.outputs[0], before)
        else:
            yield None


def _before_last(new: Rewriter, start: Value | None) -> Value | None:
    """Return the rows of which an index is the last one, the number of rows minus 1."""
    both = _old_operands(new, start, "Sub")
    count = _old_operands(new, both[0], "Shape") if both and number(both[1]) == 1 else []
    return count[0] if count else None


def _is_start_of_reversal(new: Rewriter, o: Op) -> bool:
    """Return whether an operator computes nothing but where slices of the rows begin that reverse them."""
    start = o.outputs[0]
    consumers = new.old_consumers(start) or []
    rows = _before_last(new, start)
    return (
        rows is not None
        and bool(consumers)
        and all(
            c.op == "Slice" and c.first is rows and c.input(2) is not start and integers(c.input(4)) == [-1]
            for c in consumers
        )
    )


def _old_operands(new: Rewriter, value: Value | None, op: str) -> list[Value]:
    source = None if value is None else new.old.producers.get(value)
    return [v for v in source.inputs if v is not None] if source is not None and source.op == op else []


@rule("Loop", targets=("cpp",), figure="NMS of 200 boxes with flags, us: cpp 40 -> 32")
def _no_unused_steps(new: Rewriter, o: Op) -> Op | None:
    """Run a loop of a branch for no step where the other branch is taken: `if done[i]: continue` before it."""
    uses = [(v, c) for v in o.outputs for c in new.old_consumers(v) or (None,)]
    limit, conditions = o.input(0), {_condition_of_use(v, c) for v, c in uses}
    old_condition, is_true = conditions.pop()
    condition = None if old_condition is None else new.values.get(old_condition)
    if limit is None or condition is None or conditions or len(o.outputs) != o["states"]:
        return None
    counts = [limit, new.constant(np.array(0, np.int64))]
    before = new.producer(limit, "Where")
    if before is not None and before.first is condition:
        return None
    steps = new.step(o, "Where", [condition, *counts[:: 1 if is_true else -1]], (), np.int64)
    return replace(o, inputs=[steps, *o.inputs[1:]])


def _condition_of_use(value: Value, consumer: Op | None) -> tuple[Value | None, bool]:
    """Return the scalar condition under which an operator uses `value`, and whether it must be true or false. The
    condition is None where there is none.
    """
    inputs = [] if consumer is None else consumer.inputs
    if consumer is not None and consumer.op == "And" and inputs[0] is value:
        inputs = inputs[::-1]
    is_choice = consumer is not None and consumer.op in ("And", "Where") and inputs.count(value) == 1
    if is_choice and inputs[0] is not None and inputs[0] is not value and inputs[0].shape == ():
        return inputs[0], inputs[1] is value
    return None, True


# --------------------------------------------------------------------------------------------------------- NMS

_AREAS = np.float32(1e-30), np.float32(1e37)
"""The smallest and the largest area of a box for which no product or sum of NMS underflows or overflows."""


@rule(
    "Loop",
    targets=("onnx", "onnxruntime", "openvino"),
    stage="raise",
    figure="300 of 6000 boxes, ms: ONNX Runtime 16.3 -> 1.3, OpenVINO 17.4 -> 1.7",
)
def _nms(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute a loop that is greedy NMS by NonMaxSuppression, and run it only for boxes that NonMaxSuppression
    treats in another way: those without area, with corners in another order, with numbers that are not finite.

    Both subtract, multiply, add and divide in the same order, in float32, and so decide in the same way also where
    an overlap is next to the threshold. The order of the boxes is that of the loop, whatever their scores are.
    """
    greedy = Greedy.of(new, o)
    if greedy is None or len(greedy.conditions) != 1 or new.producer(o.input(1), "And") or o.input(1) is None:
        return None
    go, start, limits, n = o.inputs[1], o.inputs[3], _limits(new, o.input(0)), greedy.positions.shape[0]
    if (
        not greedy.starts_with_all(new)
        or not greedy.ends_when_none_is_left()
        or o.input(0) is None
        or limits is None
    ):
        return None
    pair = LoopExpressions(n, new.graph.producers, greedy.body.producers, greedy.place)
    states = 2 + o["states"]
    pair.captured |= {v: w for v, w in zip(greedy.body.inputs[states:], o.inputs[states:]) if w is not None}
    try:
        corners, threshold = _boxes(pair, pair.of(greedy.conditions[0]).item())
        columns = [_column(new, o, pair, greedy, e) for e in corners]
    except (Unknown, ValueError):  # ValueError: the number of boxes equals another size of their arrays
        return None
    if any(v.dtype != np.float32 for v in columns):
        return None
    (bad,) = new.steps(o, _is_any_unusual, columns)
    (boxes,) = new.steps(o, lambda *corners: np.stack(corners, axis=1)[None], columns)
    sign = np.float32(1 if greedy.last else -1)
    (ranks,) = new.steps(o, lambda at: (at.astype(np.float32) * sign)[None, None], [greedy.positions])
    most = (
        new.constant(np.array([int(min(limits))]))
        if o.first.const is not None
        else new.step(o, "Reshape", [o.input(0), new.constant(np.array([1]))], (1,), np.int64)
    )
    number_kept = Dim("kept", stand_for((n,))[0])
    selected = new.step(
        o,
        "NonMaxSuppression",
        [boxes, ranks, most, new.constant(np.array([threshold], np.float32))],
        (number_kept, 3),
        np.int64,
    )
    selected = new.step(o, "Gather", [selected, new.constant(np.array(2))], (number_kept,), np.int64, axis=1)
    true = new.step(
        o,
        "Expand",
        [new.constant(np.array(True)), new.step(o, "Shape", [selected], (1,), np.int64)],
        (number_kept,),
        bool,
    )
    mask = new.step(o, "ScatterElements", [start, selected, true], (n,), bool, axis=0)
    runs = new.step(o, "And", [go, bad], (), bool)
    left, by_loop, *others = new.graph.append_copy(o, [o.inputs[0], runs, *o.inputs[2:]])
    by_nms = new.step(o, "And", [go, new.step(o, "Not", [bad], (), bool)], (), bool)
    usual = new.step(o, "And", [mask, by_nms], (n,), bool)
    return [left, new.step(o, "Or", [by_loop, usual], (n,), bool), *others]


def _boxes(pair: LoopExpressions, stays: int) -> tuple[list[int], Array]:
    """Return the expressions of the corners x1, y1, x2, y2 of another box, and the largest overlap that stays, for
    the expression of a condition that is greedy NMS. Raises Unknown for others.
    """
    name, *sides = pair.nodes[stays]
    if name == "Not":
        name, *sides = pair.nodes[sides[0]]
        name, sides = {"Less": "LessOrEqual", "LessOrEqual": "Less"}.get(name, ""), sides[::-1]
    if name not in ("Less", "LessOrEqual"):
        raise Unknown
    overlap, bound = sides
    kind, *parts = pair.nodes[bound]
    if kind != "constant" or parts[0] != "<f4":
        raise Unknown
    threshold = np.float32(parts[1])
    if name == "Less":
        threshold = np.nextafter(threshold, np.float32(0))
    if not 1e-6 < threshold < 0.999:
        raise Unknown
    common, _ = pair.arguments(overlap, "Div")
    lengths = [_interval(pair, e) for e in pair.arguments(common, "Mul")]
    area = pair.apply("Mul", *(pair.apply("Sub", high, low) for low, high in lengths))
    both = pair.apply("Add", pair.for_taken(area), area)
    if pair.apply("Div", common, pair.apply("Sub", both, common)) != overlap:
        raise Unknown
    return [low for low, _ in lengths] + [high for _, high in lengths], np.asarray(threshold)


def _interval(pair: LoopExpressions, length: int) -> tuple[int, int]:
    """Return the low and the high end of an interval whose common length with the taken one is given."""
    lengths = [e for e in pair.arguments(length, "Max") if not pair.is_zero(e)]
    if len(lengths) != 1:
        raise Unknown
    high, low = pair.arguments(lengths[0], "Sub")
    ends = []
    for e, op in ((low, "Max"), (high, "Min")):
        a, b = pair.arguments(e, op)
        if a == b or pair.for_taken(a) not in (a, b) or pair.for_taken(b) not in (a, b):
            raise Unknown
        ends.append(b if pair.for_taken(b) == a else a)
    return ends[0], ends[1]


def _column(new: Rewriter, o: Op, pair: LoopExpressions, greedy: Greedy, e: int) -> Value:
    """Append the operators that compute an expression for all elements."""
    name, *parts = pair.nodes[e]
    n = (pair.size,)
    if name == "position":
        if e != pair.other:
            raise Unknown  # a corner that depends on the box that is taken
        return greedy.positions
    if name == "constant":
        return new.constant(np.array(parts[1], parts[0]))
    if name != "element":
        arguments = [_column(new, o, pair, greedy, p) for p in parts]
        return new.step(o, name, arguments, n, arguments[0].dtype)
    value: Value
    value, axis, at, index = parts
    if at != pair.other:
        shape = (*value.shape[:axis], pair.size, *value.shape[axis + 1 :])
        positions = _column(new, o, pair, greedy, at)
        value = new.step(o, "Gather", [value, positions], shape, value.dtype, axis=axis)
    for i in reversed(range(len(index))):
        if i != axis:
            shape = (*value.shape[:i], *value.shape[i + 1 :])
            value = new.step(o, "Gather", [value, new.constant(np.array(index[i]))], shape, value.dtype, axis=i)
    return value


def _is_any_unusual(x1: Array, y1: Array, x2: Array, y2: Array) -> object:
    """Return whether a box has no area, corners in another order, or numbers that are not finite."""
    width, height = x2 - x1, y2 - y1
    area = width * height
    return (~((width > 0) & (height > 0) & (area >= _AREAS[0]) & (area <= _AREAS[1]))).any()
