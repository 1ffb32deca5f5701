"""The body of a loop over arrays that become shorter, computed with arrays of fixed size and a mask.

A loop takes the first (or last) element of an array, and keeps those of the rest for which a condition holds. In
the operator Loop, the arrays keep their size, and a mask says which elements are left. This is possible where each
element of the condition is computed from the element at its position and from the one that was taken. Engines
compute loops over arrays of fixed size faster, and OpenVINO computes others wrongly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anylayer import tracing
from anylayer.graph.expressions import Expression
from anylayer.graph.guards import SymbolicTrace, current_trace
from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.operators import ELEMENTWISE, REDUCTIONS, VIEWS
from anylayer.graph.sized import elements_of
from anylayer.graph.symbolic import Size, new_size, same, with_known_extrema
from anylayer.network import MAX_VALUES
from anylayer.tracing.array import TracedArray
from anylayer.tracing.counts import compressed, count_of, mask_of_size, need_possible
from anylayer.tracing.dtypes import BOOL, I4, I8
from anylayer.tracing.primitives import ONNX_TYPES, arange, as_array, expand
from anylayer.tracing.record import value_of


class Unfit(Exception):
    """The error of an iteration that cannot be computed with arrays of fixed size and a mask."""


@dataclass(frozen=True, slots=True)
class _Item:
    """A value of the iteration in the body.

    value: the value in the body. axis: the axis along which its elements belong to those of the array that becomes
    shorter, counted from the end (-1 is the last); 0 if there is none. low, high: how many elements at the
    beginning and the end the iteration leaves out. source: the array of which it is all elements, or the element
    that is taken. mask: of positions and of selections, the condition. offset: what is added to the positions.
    same: the elements along the axis of what is left are equal, and `value` holds one of them. place: the value is
    the position of the largest or smallest element. without: that element is left out.
    """

    value: Value
    axis: int = 0
    low: int = 0
    high: int = 0
    source: Value | None = None
    mask: _Item | None = None
    offset: int | None = None
    same: bool = False
    place: bool = False
    without: bool = False

    @property
    def left_out(self) -> tuple[int, int, bool]:
        return self.low, self.high, self.without

    @property
    def is_selection(self) -> bool:
        return self.mask is not None and self.offset is None


class MaskedBody:
    """The body of a loop, under construction from the operators of one iteration.

    size: the size of the arrays that become shorter. inside: the operators of the iteration by their outputs. What
    does not change in the loop is computed before it, in the graph `outer`. `inner` are the values of the body.
    """

    def __init__(self, outer: Graph, size: Size, inside: Mapping[Value, Op]) -> None:
        self.outer, self.size, self.inside = outer, size, inside
        self.graph = Graph(f"{outer.prefix}loop{len(outer.ops)}/", outer.scope)
        self.graph.input(self.graph.name("step"), (), I8)
        self.graph.input(self.graph.name("go"), (), BOOL)
        self.left = self.graph.input(self.graph.name("left"), (size,), BOOL)
        self.taken = self.graph.input(self.graph.name("taken"), (size,), BOOL)
        self.inner = set(self.graph.inputs)
        self.captured: dict[Value, Value] = {}
        self.items: dict[Value, _Item] = {}
        self.last: bool | tuple[str, Value] | None = None
        self.place: Value | None = None
        self.positions = value_of(arange(size))
        self.states: list[Value] = []
        self.at_place = ""

    # ---------------------------------------------------------------------- values of the body

    def emit(self, op: str, inputs: list[Value | None], shape: Any, dtype: Any, **attrs: Any) -> Value:
        return self.append(Op(op, inputs, [Value(op.lower(), shape, dtype)], attrs, self.at_place), inputs, shape)

    def append(self, o: Op, inputs: list[Value | None], shape: Any) -> Value:
        """Append a copy of an operator with one output to the body, or to the outer graph if it reads no value of
        the body.
        """
        types = [(shape, o.outputs[0].dtype)]
        if self.inner.isdisjoint(v for v in inputs if v is not None):
            return self.outer.append_copy(o, inputs, types=types)[0]
        inputs = [v if v is None or v in self.inner else self.capture(v) for v in inputs]
        value = self.graph.append_copy(o, inputs, types=types)[0]
        self.inner.add(value)
        return value

    def number(self, value: Any, dtype: Any = np.int64) -> Value:
        return self.outer.constant(np.array(value, dtype))

    def capture(self, value: Value) -> Value:
        """Return the input of the body for a value that is computed before the loop."""
        if value.const is not None:
            return self.graph.constant(value.const, trusted=True)
        if value not in self.captured:
            self.captured[value] = self.graph.input(self.graph.name("outer"), value.shape, value.dtype)
            self.inner.add(self.captured[value])
        return self.captured[value]

    def item(self, value: Value) -> _Item:
        """Return the item of a value of the iteration."""
        result = self.items.get(value)
        if result is None:
            o = self.inside.get(value)
            if o is not None:
                self.at_place = o.place
            result = _Item(value) if o is None else self.item_of(o, value)
            self.items[value] = result
        return result

    def taken_position(self, last: bool) -> Value:
        """Return the position of the first, or the last, element that is left."""
        if self.last not in (None, last):
            raise Unfit("takes elements from two places")
        if self.place is None:
            self.last = last
            outside = self.number(-1) if last else value_of(as_array(self.size, I8))
            places = self.emit("Where", [self.left, self.positions, outside], (self.size,), I8)
            op = "ReduceMax" if last else "ReduceMin"
            self.place = self.emit(op, [places, self.number([0])], (), I8, keepdims=0)
        return self.place

    def largest_position(self, o: Op, x: _Item) -> Value:
        """Return the position of the largest, or the smallest, element that is left."""
        if self.last not in (None, (o.op, x.value)):
            raise Unfit("takes elements from two places")
        if self.place is not None:
            return self.place
        elements, dtype, axes = x.value, x.value.dtype, self.number([0])
        most, least = ("ReduceMax", "ReduceMin") if o.op == "ArgMax" else ("ReduceMin", "ReduceMax")
        if dtype.kind == "f":  # NaN counts as infinity; NumPy takes NaN even before infinity
            is_nan = self.emit("IsNaN", [elements], (self.size,), BOOL)
            infinity = self.number(np.inf if o.op == "ArgMax" else -np.inf, dtype)
            elements = self.emit("Where", [is_nan, infinity, elements], (self.size,), dtype)
        worst = self.emit(least, [elements, axes], (1,), dtype, keepdims=1)
        values = self.emit("Where", [self.left, elements, worst], (self.size,), dtype)
        best = self.emit(most, [values, axes], (1,), dtype, keepdims=1)
        others = self.emit("Equal", [elements, best], (self.size,), BOOL)
        mask = self.emit("And", [self.left, others], (self.size,), BOOL)
        if dtype.kind == "f":  # the largest of -inf alone is not -inf in OpenVINO
            some = self.emit("Cast", [mask], (self.size,), I4, to=ONNX_TYPES[I4])
            some = self.emit("ReduceMax", [some, axes], (1,), I4, keepdims=1)
            some = self.emit("Cast", [some], (1,), BOOL, to=ONNX_TYPES[BOOL])
            nothing = self.emit("Not", [some], (1,), BOOL)
            others = self.emit("Or", [others, nothing], (self.size,), BOOL)
            mask = self.emit("And", [self.left, others], (self.size,), BOOL)
        left, self.left = self.left, mask
        place = self.taken_position(False)
        self.left, self.last = left, (o.op, x.value)
        return place

    # ------------------------------------------------------------------------------ operators

    def without_place(self, o: Op) -> _Item | None:
        """Return x[np.arange(n) != place] for the position of the largest, or None."""
        negation = self.inside.get(o.inputs[1]) if o.inputs[1] is not None else None
        equal = self.inside.get(negation.first) if negation is not None and negation.op == "Not" else None
        if equal is None or equal.op != "Equal":
            return None
        sources = [self.inside.get(v) for v in equal.inputs if v is not None]
        for numbers, place in zip(sources, equal.inputs[::-1]):
            if numbers is None or numbers.op != "Range" or place is None or not self.item(place).place:
                continue
            start, _, step = (_numbers(v)[0] for v in numbers.inputs)
            x, n = self.item(o.first), o.first.shape[o["axis"]]
            whole = (start, step) == (0, 1) and same(numbers.outputs[0].shape[0], n) and x.mask is None
            if whole and x.axis == o["axis"] - len(x.value.shape) and x.left_out == (0, 0, False):
                return replace(x, without=True)
        return None

    def item_of(self, o: Op, value: Value) -> _Item:
        if o.op == "Compress" and (rest := self.without_place(o)) is not None:
            return rest
        items = [None if v is None or elements_of(v.const) is not None else self.item(v) for v in o.inputs]
        aligned = [x for x in items if x is not None and (x.axis or x.mask is not None or x.same or x.place)]
        sized = any(v is not None and elements_of(v.const) is not None for v in o.inputs)
        if o.domain or o.body is not None:
            raise Unfit(f"computes {o.op}")
        if not aligned and not sized:
            if len(o.outputs) > 1:
                raise Unfit(f"computes {o.op}")
            copy = self.append(o, [None if x is None else x.value for x in items], value.shape)
            return _Item(copy, source=items[0].source if o in VIEWS and items[0] is not None else None)
        rule = _RULES.get(o.op) or (_elementwise if o in ELEMENTWISE else _reduce if o in REDUCTIONS else None)
        result = None if rule is None or len(o.outputs) > 1 else rule(self, o, items, value)
        if result is None:
            raise Unfit(f"computes {o.op} of the elements that are left, which is not done element by element")
        return result

    def exact(self, size: Any) -> Any:
        """Return a size, which may be an expression, for the case that at least one element is left."""
        e = getattr(size, "expression", size)
        if not isinstance(e, Expression):
            return size
        e = with_known_extrema(e, SymbolicTrace(dict.fromkeys(e.symbols, (1, MAX_VALUES))))
        return new_size(size.value if type(size) is Size else 2, e) if e.constant is None else e.constant

    def full(self, shape: Any, axis: int) -> tuple[Any, ...]:
        """Return a shape with the whole size along an axis that is counted from the end."""
        return tuple(self.size if i - len(shape) == axis else d for i, d in enumerate(shape))

    # ------------------------------------------------------------------------------ the whole

    def build(
        self,
        sized: Mapping[str, tuple[Value, Value]],
        states: Mapping[str, tuple[Value, Value]],
        appended: Mapping[str, Any],
    ) -> Any:
        """Build the body for local arrays, each with its value before and after the iteration."""
        for start, _ in sized.values():
            self.items[start] = _Item(start, axis=-len(start.shape), source=start)
        for start, _ in states.values():
            if any(type(d) is Size for d in start.shape):
                raise Unfit("changes an array of another size that depends on data")
            state = self.graph.input(self.graph.name("state"), start.shape, start.dtype)
            self.inner.add(state)
            self.items[start] = _Item(state)
            self.states.append(start)
        mask = None
        for name, (start, end) in sized.items():
            chosen = self.item(end)
            if not chosen.is_selection or chosen.source is not start:
                raise Unfit(f"'{name}' is not a selection of its own elements")
            if mask is not None and chosen.mask is not mask:
                raise Unfit("selects from two arrays with different conditions")
            mask = chosen.mask
        ends = [self.item(end) for _, end in states.values()]
        rows = {name: self.item(x._value) for name, x in appended.items()}
        if any(type(d) is Size for x in rows.values() for d in x.value.shape):
            raise Unfit("appends arrays of different sizes")
        if (
            mask is None
            or self.last is None
            or any(x.axis or x.mask is not None or x.same or x.place for x in (*ends, *rows.values()))
        ):
            raise Unfit("takes no single element")
        first, last, largest = (1, 0, False), (0, 1, False), (0, 0, True)
        if mask.left_out != (largest if type(self.last) is tuple else last if self.last else first):
            raise Unfit("does not take its element out of those that are left")
        here = self.emit("Equal", [self.positions, self.place], (self.size,), BOOL)
        others = self.emit("Not", [here], (self.size,), BOOL)
        others_left = self.emit("And", [self.left, mask.value], (self.size,), BOOL)
        left = self.emit("And", [others_left, others], (self.size,), BOOL)
        numbers = self.emit("Cast", [left], (self.size,), I4, to=ONNX_TYPES[I4])
        more = self.emit("ReduceMax", [numbers, self.number([0])], (), I4, keepdims=0)
        go = self.emit("Cast", [more], (), BOOL, to=ONNX_TYPES[BOOL])
        chosen_mask = self.emit("Or", [self.taken, here], (self.size,), BOOL)
        stacked = [x.value for x in rows.values() if x.source is None]
        results = [v if v in self.inner else self.capture(v) for v in (*(x.value for x in ends), *stacked)]
        self.graph.outputs = [go, left, chosen_mask, *results]
        return states, rows

    def append_loop(self, outputs: Any) -> tuple[dict[str, TracedArray], dict[str, TracedArray]]:
        """Append the operator to the outer graph; return the rows of each list, and the last states."""
        states, rows = outputs
        outer, n = self.outer, self.size
        masks = [expand(np.array(all_left), (n,)) for all_left in (True, False)]
        first = [as_array(n, I8), as_array(n, I8) > 0, *masks]
        inputs = [*map(value_of, first), *self.states, *self.captured]
        count = 2 + len(self.states)
        ends, stacked = self.graph.outputs[1 : 1 + count], self.graph.outputs[1 + count :]
        number = Value("steps", (), I8)
        steps = count_of(TracedArray(outer, number), n) if stacked else 0
        types = [*((v.shape, v.dtype) for v in ends), *(((steps, *v.shape), v.dtype) for v in stacked)]
        runs = (o.body for o in outer.ops if o.op == "Loop" and o.inputs == inputs and not stacked and o.body)
        body = next((b for b in runs if tracing.checked.compare(b, self.graph) is None), self.graph)
        result = outer.emit("Loop", inputs, types, {"states": count}, body=body)
        if stacked:  # as many elements as are taken
            outer.counts[result[1]] = outer.counts.pop(number)
            outer.selections.extend(result[count:])
        mask = TracedArray(outer, result[1])
        finals = dict(zip(states, (TracedArray(outer, v) for v in result[2:count])))
        row_arrays: dict[str, Any] = {}
        others = iter(result[count:])
        for name, item in rows.items():
            if item.source is None:
                row = TracedArray(outer, next(others))
                row_arrays[name] = np.zeros((0, *row.shape[1:]), row.dtype) if type(steps) is int else row
                continue
            chosen = compressed(TracedArray(outer, item.source), mask, 0)
            row_arrays[name] = chosen[::-1] if self.last else chosen
        trace, steps = current_trace.get(), outer.counts.get(result[1])
        if trace is not None and type(steps) is Size:  # the loop takes one if there is one
            trace.alike.update(dict.fromkeys(steps.expression.symbols, n.expression))
        at_first = mask_of_size(n)
        if at_first is not None and any(type(x.shape[0]) is int for x in row_arrays.values()):
            need_possible(at_first)  # a loop without a step begins with nothing
        return row_arrays, finals


def _elementwise(body: MaskedBody, o: Op, items: list[Any], value: Value) -> _Item | None:
    aligned = [x for x in items if x is not None and x.axis]
    positions = [x for x in items if x is not None and x.offset is not None]
    if positions:
        return _add_number(o, items, positions[0])
    if not aligned or any(x is None or x.is_selection or x.place for x in items):
        return None
    (axis, low, high, without), *others = {(x.axis, *x.left_out) for x in aligned}
    if others:
        return None
    for x in items:
        if not x.axis and len(x.value.shape) >= -axis and x.value.shape[axis] != 1:
            return None
    shape = body.full(value.shape, axis)
    return _Item(body.append(o, [x.value for x in items], shape), axis, low, high, without=without)


def _expand(body: MaskedBody, o: Op, items: list[Any], value: Value) -> _Item | None:
    """Repeat one number for all elements that are left, as np.zeros_like does."""
    x: _Item = items[0]
    is_one_number = (
        not x.axis and x.mask is None and not x.place and all(type(d) is int and d == 1 for d in x.value.shape)
    )
    return replace(x, same=True) if is_one_number else None


def _add_number(o: Op, items: list[Any], positions: _Item) -> _Item | None:
    """Return positions plus a number."""
    numbers = [x.value.const for x in items if x is not positions and x is not None]
    if o.op not in ("Add", "Sub") or len(numbers) != 1 or numbers[0] is None or numbers[0].size != 1:
        return None
    if o.op == "Sub" and items[0] is not positions:
        return None
    number = int(numbers[0].reshape(()))
    return replace(positions, offset=(positions.offset or 0) + (number if o.op == "Add" else -number))


def _reduce(body: MaskedBody, o: Op, items: list[Any], value: Value) -> _Item | None:
    """Reduce along axes that are not the one of the elements that are left."""
    x: _Item = items[0]
    axes = items[1] if len(items) > 1 else None
    if not x.axis or x.mask is not None or axes is None or axes.value.const is None:
        return None
    rank = len(x.value.shape)
    reduced = {int(a) % rank for a in axes.value.const.reshape(-1)}
    at = rank + x.axis
    if at in reduced:
        return None
    axis = x.axis if o["keepdims"] else at - sum(a < at for a in reduced) - len(value.shape)
    shape = body.full(value.shape, axis)
    return replace(x, value=body.append(o, [x.value, axes.value], shape), axis=axis, source=None)


def _slice(body: MaskedBody, o: Op, items: list[Any], value: Value) -> _Item | None:
    """Leave out the first or the last element, or take it."""
    x: _Item = items[0]
    starts, _, axes, steps = ([*map(body.exact, _numbers(v))] for v in o.inputs[1:5])
    if not x.axis or x.mask is not None or any(s != 1 for s in steps):
        return None
    rank = len(x.value.shape)
    at = rank + x.axis
    others = {int(a) % rank: k for k, a in enumerate(axes) if a % rank != at}
    if others:
        limits = [body.number([_numbers(v)[k] for k in others.values()]) for v in o.inputs[1:5]]
        shape = [value.shape[i] if i in others else d for i, d in enumerate(x.value.shape)]
        x = replace(x, value=body.emit("Slice", [x.value, *limits], tuple(shape), value.dtype), source=None)
    if len(others) == len(axes):
        return x
    if x.without:
        return None
    size = body.exact(o.first.shape[at])
    start, n = next(s for s, a in zip(starts, axes) if a % rank == at), body.exact(value.shape[at])
    if type(n) is not Size and n == 1:
        return _take(body, x, start, size, at, value)
    if type(start) is Size or start < 0:
        return None
    rest = size - start - n
    if type(rest) is Size or rest < 0:
        return None
    return replace(x, low=x.low + start, high=x.high + int(rest))


def _take(body: MaskedBody, x: _Item, start: Any, size: Any, at: int, value: Value) -> _Item | None:
    """Take the first or the last element."""
    if type(start) is not Size and start == 0 and x.low == 0:
        last = False
    elif x.high == 0 and (same(start, -1) or same(start, size - 1)):
        last = True
    else:
        return None
    where = body.emit("Reshape", [body.taken_position(last), body.number([1])], (1,), I8)
    return _Item(body.emit("Gather", [x.value, where], value.shape, value.dtype, axis=at), source=x.source)


def _largest(body: MaskedBody, o: Op, items: list[_Item], value: Value) -> _Item | None:
    """Find the largest or the smallest element."""
    x = items[0]
    numbers = x.value.dtype.kind in "iuf" and len(x.value.shape) == 1
    whole = numbers and x.axis == -1 and x.mask is None and x.left_out == (0, 0, False)
    return _Item(body.largest_position(o, x), place=True) if whole else None


def _numbers(value: Value | None) -> list[Any]:
    if value is None or value.const is None:
        return [None]
    return list(elements_of(value.const) or value.const.reshape(-1).tolist())


def _gather(body: MaskedBody, o: Op, items: list[Any], value: Value) -> _Item | None:
    data, index = items
    axis = o["axis"] % len(data.value.shape)
    if index.place:
        whole = data.axis and data.mask is None and data.left_out == (0, 0, False)
        if not whole or len(data.value.shape) + data.axis != axis:
            return None
        return _Item(body.emit("Gather", [data.value, index.value], value.shape, value.dtype, axis=axis))
    if index.offset is not None:
        mask = index.mask
        if not data.axis or data.mask is not None or len(data.value.shape) + data.axis != axis:
            return None
        if mask.high < data.high or index.offset + data.low != mask.low or mask.without != data.without:
            return None
        return _Item(data.value, data.axis, 0, 0, data.source, mask)
    if index.mask is not None or data.mask is not None or (data.axis and index.axis) or data.same or index.same:
        return None
    if index.axis:
        at = axis + len(index.value.shape) + index.axis - len(value.shape)
        shape = body.full(value.shape, at)
        copy = body.append(o, [data.value, index.value], shape)
        return _Item(copy, at, index.low, index.high, without=index.without)
    at = len(data.value.shape) + data.axis
    if at == axis:
        return None
    at += len(index.value.shape) - 1 if at > axis else 0
    shape = body.full(value.shape, at - len(value.shape))
    copy = body.append(o, [data.value, index.value], shape)
    return _Item(copy, at - len(value.shape), data.low, data.high, without=data.without)


def _reshape(body: MaskedBody, o: Op, items: list[Any], value: Value) -> _Item | None:
    x: _Item | None = items[0]
    if x is None:
        return None
    if x.offset is not None:
        return x if len(value.shape) == 1 else None
    if x.mask is not None or not x.axis:
        return None
    old = o.first.shape
    at = len(old) + x.axis
    size = body.exact(old[at])
    before = math.prod(old[:at])
    for i, d in enumerate(value.shape):
        if type(d) is Size and same(body.exact(d), size):
            others = [*value.shape[:i], *value.shape[i + 1 :]]
            if any(type(n) is Size for n in others) or not same(math.prod(value.shape[:i]), before):
                return None
            target = body.number([-1 if k == i else int(n) for k, n in enumerate(value.shape)])
            axis = i - len(value.shape)
            shape = body.full(value.shape, axis)
            copy = body.emit("Reshape", [x.value, target], shape, value.dtype)
            return replace(x, value=copy, axis=axis, source=x.source if len(value.shape) == len(old) else None)
    return None


def _nonzero(body: MaskedBody, o: Op, items: list[Any], value: Value) -> _Item | None:
    x = items[0]
    if len(x.value.shape) != 1 or not x.axis or x.mask is not None:
        return None
    return _Item(x.value, mask=x, offset=0)


def _compress(body: MaskedBody, o: Op, items: list[Any], value: Value) -> _Item | None:
    data, mask = items
    axis = o["axis"]
    if data.mask is not None or mask.mask is not None or not mask.axis or not data.axis or axis is None:
        return None
    if axis % len(data.value.shape) != len(data.value.shape) + data.axis:
        return None
    if data.left_out != mask.left_out:
        return None
    return _Item(data.value, data.axis, 0, 0, data.source, mask)


_RULES: dict[str, Any] = {
    "ArgMax": _largest, "ArgMin": _largest,
    "Compress": _compress, "Expand": _expand, "Gather": _gather, "NonZero": _nonzero, "Reshape": _reshape,
    "Slice": _slice,
}  # fmt: skip
