"""The values of two paths, joined by the decision between them."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.graph.guards import SelectionKey
from anylayer.graph.ir import Decisions, Graph, Op, Value
from anylayer.graph.operators import ELEMENTWISE
from anylayer.graph.place import JoinError, refusal
from anylayer.graph.sized import elements_of
from anylayer.graph.symbolic import same, same_shape
from anylayer.network import Array
from anylayer.tracing.array import TracedArray
from anylayer.tracing.decisions import Decision
from anylayer.tracing.python_numbers import is_exact
from anylayer.tracing.size_arithmetic import hold

_MAX_DEPTH = 200
"""The largest number of operators through which a difference between two paths is followed."""


def join_selected(
    graph: Graph,
    nothing: Graph,
    selected: Sequence[tuple[SelectionKey, int]],
    outer: Mapping[SelectionKey, int],
    place: str,
) -> Graph:
    """Return the graph of a function, joined with its trace `nothing` where a selection is empty.

    selected: this selection, and those on which its size depends that are filled in `graph`, with the numbers of
    elements that they have where it has one. outer: those that are filled or watched where the result is used. If
    some of them have more elements in `graph`, it does not compute whether they have fewer, as `nothing` does.
    place: the line that asks whether it is empty.
    """
    first, *rest = (graph.filled[key] for key in selected if key in graph.filled)
    parts: list[Any] = [
        TracedArray(graph, v) for v in (first, *rest) if v is first or v not in _parts(graph, first)
    ]
    condition = functools.reduce(np.logical_and, parts)._value
    decision = Decision(condition, place, None, 0, len(graph.ops), True)
    graph.filled = {(n, k): v for (n, k), v in graph.filled.items() if n in outer and k <= outer[n]}
    more = any(n in outer for n, _ in selected)
    exact = graph.filled if not more else {key: v for key, v in nothing.filled.items() if key in graph.filled}
    if len(exact) < len(graph.filled):
        raise refusal("this question depends on an earlier one in a way that cannot be recorded", place=place)
    count = len(nothing.outputs)
    if more:
        nothing.outputs = [*nothing.outputs, *exact.values()]
    results = graph.inline(nothing, graph.inputs)
    graph.filled |= zip(exact, results[count:])
    paths = _joined_paths(graph, condition, nothing, place)
    graph.outputs = [
        join(graph, decision, a, b, f"output {i}", ("if something is selected here", "if nothing is"))
        for i, (a, b) in enumerate(zip(graph.outputs, results[:count]))
    ]
    graph.drop_dead()
    graph.decided = paths
    return graph


def _parts(graph: Graph, value: Value) -> set[Value]:
    """Return a value and the values that And joins to it."""
    o = graph.producers.get(value)
    inputs = o.inputs if o is not None and o.op == "And" else []
    return {value}.union(*(_parts(graph, v) for v in inputs if v is not None))


def _joined_paths(graph: Graph, condition: Value, nothing: Graph, place: str) -> Decisions:
    """Return the decisions of two graphs that `condition` joins, without paths that contradict themselves."""
    whole = Graph(graph.prefix, graph.scope)
    whole.inputs = graph.inputs
    root = graph.twin()
    root.outputs = [condition]
    root.drop_dead()
    whole.outputs = whole.inline(root, graph.inputs)
    paths: dict[tuple[tuple[int, bool], ...], str] = {}
    for answer, side_paths in ((True, graph.decided), (False, nothing.decided)):
        last = f"{place} ({'something' if answer else 'nothing'} is selected)"
        values = whole.inline(side_paths.conditions, graph.inputs) if side_paths is not None else []
        whole.outputs.extend(v for v in values if v not in whole.outputs)
        for path, text in {(): last}.items() if side_paths is None else side_paths.paths.items():
            answers = [(0, answer), *((whole.outputs.index(values[i]), side) for i, side in path)]
            if len(dict(answers)) == len({*answers}):
                paths[tuple(answers)] = text
    return Decisions(whole, paths)


def join(
    graph: Graph,
    decision: Decision,
    a: Value,
    b: Value,
    what: str,
    sides: Sequence[str] = ("where the condition here is true", "where it is false"),
) -> Value:
    """Return the value that is `a` where a decision is true, and `b` where it is false.

    what, sides: what the value and the two sides are called in messages.
    """
    if a is b:
        return a
    a, b = _as_exact(graph, a, b), _as_exact(graph, b, a)
    if _same_type(a, b):
        return _Join(graph, decision).value(a, b)
    if a in graph.nothing and b.shape:
        a = graph.constant(np.zeros((0, *b.shape[1:]), b.dtype))
    elif b in graph.nothing and a.shape:
        b = graph.constant(np.zeros((0, *a.shape[1:]), a.dtype))
    first, second = a.shape, b.shape
    if a.dtype != b.dtype or not (first and second) or not same_shape(first[1:], second[1:]):
        raise refusal(
            f"{what} is {a.type} {sides[0]}, and {b.type} {sides[1]}; return arrays of one dtype that differ in "
            "their first size at most",
            place=decision.place,
            kind=JoinError,
        )
    condition: Any = TracedArray(graph, decision.condition)
    parts: list[Array] = [_array_of(graph, a), _array_of(graph, b)]
    rows = [np.broadcast_to(c, x.shape[:1]) for c, x in zip((condition, ~condition), parts)]
    if same(sum(x.shape[0] for x in parts), 1):  # the number of selected rows needs two values
        parts.append(np.zeros((1, *first[1:]), a.dtype))
        rows.append(np.zeros(1, np.bool_))
    rest: Any = np.concatenate(parts)[np.concatenate(rows)]
    value: Value = rest._value
    return value


def _as_exact(graph: Graph, a: Value, b: Value) -> Value:
    """Return a constant number, as of `return 0.0`, in the dtype of the other side if it is the same there."""
    if a.const is None or a.shape or a.dtype == b.dtype or elements_of(a.const) is not None:
        return a
    return graph.constant(a.const.astype(b.dtype)) if is_exact(a.const.item(), b.dtype, strict=True) else a


def _array_of(graph: Graph, value: Value) -> TracedArray:
    """Return a value as a traced array, also a constant that is computed from sizes: its values are not fixed."""
    return TracedArray(graph, value) if elements_of(value.const) is None else hold(graph, value.const)


class _Join:
    """The join of the two sides of a decision.

    Where both sides compute the same operator of different values, these are joined and the operator is recorded
    once: f(a) and f(b) become f(Where(condition, a, b)). Values from before the decision are not followed.
    """

    def __init__(self, graph: Graph, decision: Decision) -> None:
        self.graph, self.condition = graph, decision.condition
        self.order = {o: i for i, o in enumerate(graph.ops)}
        self.first = decision.recorded
        self.made: dict[tuple[Value, Value], Value] = {}

    def value(self, a: Value, b: Value, depth: int = 0) -> Value:
        """Return the value that is `a` where the condition is true and `b` where it is false, of one type."""
        if a is b:
            return a
        if (a, b) not in self.made:
            value = self._same_operator(a, b, depth) if depth < _MAX_DEPTH else None
            if value is None:
                arrays: list[Any] = [_array_of(self.graph, v) for v in (self.condition, a, b)]
                value = np.where(*arrays)._value
            self.made[a, b] = value
        return self.made[a, b]

    def _same_operator(self, a: Value, b: Value, depth: int) -> Value | None:
        """Return the output of one operator that takes the place of those of both sides, or None."""
        o, q = self._producer(a), self._producer(b)
        if o is None or q is None or o is q or o.outputs.index(a) != q.outputs.index(b) or not _alike(o, q):
            return None
        inputs: list[Value | None] = []
        for v, w in zip(o.inputs, q.inputs):
            inputs.append(v if v is None or w is None else self.value(v, w, depth + 1))
        return self.graph.append_copy(o, inputs)[o.outputs.index(a)]

    def _producer(self, v: Value) -> Op | None:
        """Return the operator that computes a value, if it was recorded after the decision."""
        o = self.graph.producers.get(v)
        return o if o is not None and self.order.get(o, -1) >= self.first else None


def _alike(o: Op, q: Op) -> bool:
    """Return whether two operators differ only in inputs of one type, which may be computed: not in a shape or an
    axis, for example.
    """
    first, second = ((x.op, x.domain, x.body, x.kept, repr(sorted(x.attrs.items()))) for x in (o, q))
    if first != second or len(o.inputs) != len(q.inputs) or not all(map(_same_type, o.outputs, q.outputs)):
        return False
    differing = [(v, w) for v, w in zip(o.inputs, q.inputs) if v is not w]
    return all(
        v is not None
        and w is not None
        and _same_type(v, w)
        and (o in ELEMENTWISE or (v.const is None and w.const is None))
        for v, w in differing
    )


def _same_type(a: Value, b: Value) -> bool:
    return a.dtype == b.dtype and same_shape(a.shape, b.shape)
