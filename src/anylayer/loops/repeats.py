"""The operator Loop: its states are arrays that each iteration changes.

A state of which an iteration writes single elements is changed in place. Others are computed into arrays of their
own, which are copied at the end of the iteration.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from math import prod

import numpy as np

from anylayer.graph import Graph, Op, Value
from anylayer.graph.expressions import constant
from anylayer.graph.operators import COSTLY, VIEWS
from anylayer.graph.sizes import Dim
from anylayer.loops.ir import BOOL, INT, Branch, Buffer, Local, Repeat, Scalar, Set, Statement, Store
from anylayer.loops.lower import append_graph, naming
from anylayer.loops.lowering import NESTS, ElementAt, Index, Lowering, Unsupported, given, nests, size_of
from anylayer.loops.movement import write_elements
from anylayer.loops.reductions import copies, in_memory

_ENDLESS = constant(2**62)
"""More than the number of iterations of a loop whose limit is data."""
_MAX_WRITES = 256
"""The largest number of writes per iteration that change a state in place."""


@dataclass(frozen=True, slots=True)
class _Write:
    """A ScatterElements that changes a state if each of the conditions has this answer."""

    op: Op
    conditions: tuple[tuple[Value, bool], ...] = ()


@nests("Loop")
def _loop(low: Lowering, op: Op) -> None:
    if op.body is None or low.by_element:
        raise Unsupported("a loop on data in a kernel for GPUs")
    graph, count = _with_where(op.body), int(op["states"])
    if not all(size_of(v.shape[0]).symbols <= low.space.known.ranges.keys() for v in op.outputs[count:]):
        raise Unsupported("it stacks a number of rows that depends on data")
    before, after, rows = graph.inputs[2 : 2 + count], graph.outputs[1 : 1 + count], graph.outputs[1 + count :]
    limit = _limit(low, given(op))
    name, step = low.variable(limit.data if limit.op == "index" else _ENDLESS)
    yes, targets = low.scalars.const(True, BOOL), list[tuple[Value, Buffer]]()
    inputs: dict[Value, ElementAt] = {
        graph.inputs[0]: lambda index: low.scalars.index(step),
        graph.inputs[1]: lambda index: yes,
    }
    inner = low.inside(graph, inputs)
    for value, outer in zip(graph.inputs[2 + count :], op.inputs[2 + count :]):
        if outer is not None and _is_view(low, outer):
            inputs[value] = partial(low.element, outer)
        else:
            inner.buffers[value] = in_memory(low, outer or value)
    for value, outer, result in zip(before, op.inputs[2:], op.outputs):
        buffer = inner.buffers[value] = low.new_buffer(result)
        low.states.add(buffer)
        if low.buffers.get(outer or value) is not buffer:
            copies(low, outer or value, buffer)

    def target(value: Value) -> Buffer:
        targets.append((value, low.temporary(value)))
        return targets[-1][1]

    condition = _condition(low, op, graph, target)
    ends: list[tuple[Buffer, Buffer, Index]] = []
    writes: list[tuple[Buffer, _Write]] = []
    in_place = set[Value]()
    used = {*graph.outputs, *(v for o in graph.ops for v in o.inputs)}
    for value, end in zip(before, after):
        buffer = inner.buffers[value]
        changes = _writes(graph, value, end)
        if _is_passed_on(graph, value, end) or value not in used:
            targets.append((end, buffer))
        elif changes is not None:
            writes += [(buffer, write) for write in changes]
            in_place.add(value)
        else:
            ends.append((target(end), buffer, []))
    ends += [(target(value), low.new_buffer(result), [step]) for value, result in zip(rows, op.outputs[count:])]
    writes = [(buffer, replace(w, conditions=_tests(graph, w.conditions))) for buffer, w in writes]
    read = [v for _, w in writes for v in (*w.op.inputs[1:], *(c for c, _ in w.conditions)) if v is not None]
    for o in graph.ops:
        if not in_place.isdisjoint(o.inputs):
            in_place.update(o.outputs)
    numbers = _costly_numbers(graph, [c for _, w in writes for c, _ in w.conditions])
    for value in dict.fromkeys([*numbers, *(v for v in read if v in in_place)]):
        target(value)
    graph.outputs = [*(v for v, _ in targets), *read]
    graph.drop_dead()
    graph.outputs = [v for v, _ in targets]
    append_graph(inner, targets, _numbers_for_others(graph))
    for conditions, group in groupby(writes, key=lambda w: w[1].conditions):
        _append_writes(inner, conditions, list(group))
    for source, buffer, row in ends:
        inner.fill(source.shape, partial(_copy, inner, source, buffer, row))
    bases = [d.base for v in op.outputs[count:] for d in v.shape[:1] if isinstance(d, Dim)]
    for d in dict.fromkeys(d for d in bases if d.expression is None and d.name not in low.counts):
        counter = Local(low.name("count"), INT)
        low.counts[d.name] = counter, d.maximum
        low.flush([Set(counter, low.scalars.const(0, INT), "=")])
        inner.body.append(Set(counter, low.scalars.const(1, INT), "add"))
    low.flush([Repeat(name, limit, condition, inner.body)])


def _tests(graph: Graph, conditions: Sequence[tuple[Value, bool]]) -> tuple[tuple[Value, bool], ...]:
    """Return the parts of conditions with their answers. Each is computed only if those before it hold."""
    tests: list[tuple[Value, bool]] = []
    pending = [*conditions][::-1]
    while pending:
        value, answer = pending.pop()
        o = graph.producers.get(value)
        inputs = [] if o is None else [v for v in o.inputs if v is not None]
        if o is None:
            tests.append((value, answer))
        elif o in VIEWS or o.op == "Not":
            pending.append((inputs[0], answer ^ (o.op == "Not")))
        elif o.op == ("And" if answer else "Or"):
            pending += [(inputs[1], answer), (inputs[0], answer)]
        elif o.op == "Where" and inputs[2 if answer else 1] is inputs[0]:
            pending += [(inputs[1 if answer else 2], answer), (inputs[0], answer)]
        else:
            tests.append((value, answer))
    return tuple(tests)


def _numbers_for_others(graph: Graph) -> set[Value]:
    """Return the numbers of a body that no output is computed from. Writes compute those that they read."""
    before = {*graph.outputs}
    for o in reversed(graph.ops):
        if o.op in NESTS or not before.isdisjoint(o.outputs):
            before.update(v for v in (*o.inputs, *o.outputs) if v is not None)
    return {v for o in graph.ops for v in o.outputs if v not in before and not v.shape}


def _costly_numbers(graph: Graph, conditions: Sequence[Value]) -> list[Value]:
    """Return the numbers that conditions are computed from by costly operators, and that others read, too."""
    before, costly = {*conditions}, set[Value]()
    for o in graph.ops:
        if o in COSTLY or o.op in NESTS or not costly.isdisjoint(o.inputs):
            costly.update(o.outputs)
    numbers: list[Value] = []
    uses = Counter(v for o in graph.ops for v in o.inputs)
    for o in reversed(graph.ops):
        if not before.isdisjoint(o.outputs):
            before.update(v for v in o.inputs if v is not None and v.const is None)
            result = o.outputs[0]
            if uses[result] > 1 and result in costly and not result.shape and o not in VIEWS:
                numbers.append(result)
    return numbers


def _limit(low: Lowering, limit: Value) -> Scalar:
    """Return the largest number of iterations: an expression, or an element of an array."""
    number = _one(low, limit)
    return number if number.op == "index" else low.scalars.load(in_memory(low, limit), constant(0))


def _condition(low: Lowering, op: Op, graph: Graph, target: Callable[[Value], Buffer]) -> Scalar | None:
    """Return the condition of an iteration, or None where it is always true. `target` returns the buffer to which
    the iterations write the next one.
    """
    start, end = op.input(1), graph.outputs[0]
    first = low.scalars.const(True, BOOL) if start is None else _one(low, start)
    keeps = end is graph.inputs[1] or (end.const is not None and bool(np.all(end.const)))
    if keeps and first.op == "const" and first.data:
        return None
    buffer = low.temporary(end) if keeps else target(end)
    low.flush([Store(buffer, constant(0), first)])
    return low.scalars.load(buffer, constant(0))


def _one(low: Lowering, value: Value) -> Scalar:
    """Return the only element of a value."""
    return low.element(value, [constant(0)] * len(value.shape))


def _copy(low: Lowering, source: Buffer, buffer: Buffer, row: Index, index: Index) -> list[Statement]:
    """Return the copy of an element of an array, or of a row of the result."""
    return [Store(buffer, buffer.offset([*row, *index]), low.scalars.load(source, source.offset(index)))]


def _append_writes(
    low: Lowering, conditions: Sequence[tuple[Value, bool]], writes: Sequence[tuple[Buffer, _Write]]
) -> None:
    """Append writes to buffers, which run where all conditions have their answers."""
    tests = [_one(low, v) if answer else low.scalars.truth("not", _one(low, v)) for v, answer in conditions]
    body, low.body = low.body, []
    for buffer, write in writes:
        with naming(write.op):
            write_elements(low, write.op, buffer)
    for test in reversed(tests):
        low.body = [Branch(test, low.body)]
    low.body = [*body, *low.body]


def _is_view(low: Lowering, value: Value) -> bool:
    """Return whether a value needs no copy: it is an expression of indices, or a view of an array in memory."""
    while value not in low.buffers and value.const is None:
        producer = low.graph.producers.get(value)
        if producer is None or not value.shape:
            return value in low.inputs or low.element(value, []).op == "index"
        source = given(producer)
        if producer not in VIEWS and (producer.op != "Slice" or source.shape[-1] != value.shape[-1]):
            return False  # what is not consecutive is read faster from a copy
        value = source
    return True


# ------------------------------------------------------------------------ states in place


def _with_where(graph: Graph) -> Graph:
    """Return a graph with Where in place of (m & a) | (~m & b), which np.where of booleans is recorded as."""
    new = graph.twin()
    new.ops = [_as_where(graph, o) or o for o in graph.ops]
    new.producers = {v: o for o in new.ops for v in o.outputs}
    new.drop_dead()
    return new


def _as_where(graph: Graph, o: Op) -> Op | None:
    sides = [graph.producers.get(v) for v in o.inputs if v is not None] if o.op == "Or" else []
    parts = [v for s in sides if s is not None and s.op == "And" for v in s.inputs]
    inverse = graph.producers.get(parts[2]) if len(parts) == 4 and parts[2] is not None else None
    if inverse is None or inverse.op != "Not" or inverse.first is not parts[0]:
        return None
    return replace(o, op="Where", inputs=[parts[0], parts[1], parts[3]])


def _is_passed_on(graph: Graph, state: Value, end: Value) -> bool:
    """Return whether only an inner loop reads a state, as a state of its own, whose last value is the next one."""
    inner = graph.producers.get(end)
    if inner is None or inner.op != "Loop" or inner.domain or graph.outputs.count(end) > 1:
        return False
    at, uses = inner.outputs.index(end), [v for o in graph.ops for v in o.inputs]
    is_state = at < inner["states"] and inner.input(2 + at) is state
    return is_state and uses.count(state) == 1 and end not in uses and state not in graph.outputs


def _writes(graph: Graph, state: Value, end: Value) -> list[_Write] | None:
    """Return the writes to a state that result in the next one, or None if other operators read it in between."""
    writes_of: dict[Value, list[_Write]] = {state: []}
    for o in graph.ops:
        changes = _writes_after(o, writes_of, state)
        if changes is not None and len(changes) <= _MAX_WRITES:
            writes_of[o.outputs[0]] = changes
    if end not in writes_of:
        return None
    between, pending = set[Value](), [end]
    while pending:
        value = pending.pop()
        if value is not state and value not in between:
            between.add(value)
            pending += [v for v in _data(graph.producers[value]) if v is not None]
    for o in graph.ops:
        others = o.inputs
        if o.outputs[0] in between:
            others = o.inputs[:1] if o.op == "Where" else o.inputs[1:]
        if not between.isdisjoint(others):
            return None
    return writes_of[end] if sum(v in between for v in graph.outputs) == (end is not state) else None


def _data(o: Op) -> Sequence[Value | None]:
    """Return the inputs of an operator that are the array before a write, or its two versions."""
    return o.inputs[1:3] if o.op == "Where" else o.inputs[:1]


def _writes_after(o: Op, writes_of: dict[Value, list[_Write]], state: Value) -> list[_Write] | None:
    """Return the writes that result in an operator's output of a state, or None where it is something else.

    writes_of: the writes that result in the values before it.
    """
    values = [v for v in _data(o) if v is not None and v in writes_of]
    if o.domain or len(values) < len(_data(o)) or not values:
        return None
    result, first = o.outputs[0], writes_of[values[0]]
    if o in VIEWS or (o.op == "Cast" and np.can_cast(state.dtype, result.dtype, "safe")):
        return first
    if o.op == "ScatterElements" and (o["reduction"] == "none" or values[0].dtype == state.dtype):
        return [*first, _Write(o)]
    test = o.input(0)
    if o.op != "Where" or test is None or any(v.shape != result.shape for v in values):
        return None
    if not all(type(d) is int for d in test.shape) or prod(test.shape) != 1:
        return None
    second = writes_of[values[1]]
    same = next((i for i, (a, b) in enumerate(zip(first, second)) if a is not b), min(len(first), len(second)))
    rest = [(True, w) for w in first[same:]] + [(False, w) for w in second[same:]]
    return [*first[:same], *(_Write(w.op, ((test, answer), *w.conditions)) for answer, w in rest)]
