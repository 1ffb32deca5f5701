"""Loops whose steps do not depend on each other: `for i in range(n): y[i] = f(x[i])`.

Where each step of a recorded loop only reads element i of the arrays that it changes, and writes it, all steps are
computed at once: the operators of one step are recorded for arrays with an axis of the steps in front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.operators import ELEMENTWISE, INDEXED, VIEWS
from anylayer.graph.symbolic import same
from anylayer.network import Array
from anylayer.tracing.array import TracedArray
from anylayer.tracing.primitives import arange, expand, gather, reshape
from anylayer.tracing.record import value_of


class _Depends(Exception):
    """The error of a step that depends on others, or that cannot be computed for all steps at once."""


def all_steps(
    graph: Graph,
    ops: Sequence[Op],
    n: int,
    step: Value,
    states: Sequence[tuple[Value, Array]],
    others: Sequence[Value],
    results: Sequence[Value],
) -> list[Array] | None:
    """Return the last states of a loop and the stacked rows, or None if its steps depend on each other.

    ops: the operators of a step. n: the number of steps. step: the value that stands for its number. states: the
    values that stand for arrays that the loop changes, and these arrays before it. others: values that must not
    be read. results: the states and the rows after a step.
    """
    first = len(graph.ops)
    try:
        steps = _Steps(graph, n, step, states, others)
        for o in ops:
            steps.take(o)
        return [
            *map(steps.last, results[: len(states)], (v for v, _ in states)),
            *map(steps.rows, results[len(states) :]),
        ]
    except _Depends:
        graph.forget(first)
        return None


class _Steps:
    """The values of all steps.

    values: arrays whose first axis are the steps, by the values of one step. elements: for arrays of which a step
    may have written its element, the array before the loop and these elements. numbers: the values that are the
    number of the step. outside: values that are the same in all steps, by those of the pass.
    """

    def __init__(
        self, graph: Graph, n: int, step: Value, states: Sequence[tuple[Value, Array]], others: Sequence[Value]
    ) -> None:
        self.graph, self.n, self.others = graph, n, {*others}
        self.values: dict[Value, Array] = {step: arange(n)}
        self.numbers = {step}
        self.outside: dict[Value, Value] = {}
        self.elements: dict[Value, tuple[Value, Array]] = {}
        for v, start in states:
            if len(v.shape) != 1 or not same(v.shape[0], n):
                raise _Depends
            self.elements[v] = v, start

    def last(self, result: Value, state: Value) -> Array:
        """Return the array that a state is after all steps."""
        if result not in self.elements or self.elements[result][0] is not state:
            raise _Depends
        return self.elements[result][1]

    def rows(self, result: Value) -> Array:
        """Return what each step computes, stacked."""
        if result in self.elements or result in self.others:
            raise _Depends
        if result in self.values:
            return reshape(self.values[result], (self.n, *result.shape))
        return expand(self.array(result), (self.n, *result.shape))

    def array(self, v: Value) -> Array:
        """Return a value that is the same in all steps."""
        return TracedArray(self.graph, self.outside.get(v, v))

    def take(self, o: Op) -> None:
        """Compute an operator for all steps."""
        inputs = [v for v in o.inputs if v is not None]
        if not self.others.isdisjoint(inputs):
            raise _Depends
        if not any(v in self.values or v in self.elements for v in inputs):
            if o.body is not None or (o in INDEXED and inputs[1].const is None):
                raise _Depends  # an index may only be inside of an array where the loop has a step
            copies = self.graph.append_copy(o, [v and self.outside.get(v, v) for v in o.inputs])
            self.outside.update(zip(o.outputs, copies))
            return
        if len(o.outputs) > 1 or o.domain or o.body is not None:
            raise _Depends
        result = o.outputs[0]
        if any(v in self.elements for v in inputs):
            self.take_state(o, inputs, result)
        elif o in VIEWS:
            self.keep(result, self.values[inputs[0]])
            self.numbers |= {result} if inputs[0] in self.numbers else set()
        elif o in ELEMENTWISE:
            rank = 0 if all(map(_is_number, (result, *inputs))) else len(result.shape)
            values = [None if v is None else value_of(self.operand(v, rank)) for v in o.inputs]
            shape = (self.n, *result.shape[:rank])
            (value,) = self.graph.append_copy(o, values, types=[(shape, result.dtype)])
            self.values[result] = TracedArray(self.graph, value)
        elif o.op == "Gather" and inputs[1] not in self.values:
            x = reshape(self.values[inputs[0]], (self.n, *inputs[0].shape))
            self.keep(result, gather(x, self.array(inputs[1]), o["axis"] + 1))
        elif o.op == "Gather" and inputs[0] not in self.values and o["axis"] == 0:
            x, index = self.array(inputs[0]), inputs[1]
            is_whole = index in self.numbers and same(x.shape[0], self.n)
            self.keep(result, x if is_whole else gather(x, self.values[index], 0))
        else:
            raise _Depends

    def keep(self, result: Value, array: Array) -> None:
        """Keep the values of all steps: of a single number with one axis, whatever its rank is in a step."""
        self.values[result] = reshape(array, (self.n, *(() if _is_number(result) else result.shape)))

    def take_state(self, o: Op, inputs: Sequence[Value], result: Value) -> None:
        """Compute an operator that reads an array of which a step has written its element."""
        x = inputs[0]
        if o.op in ("Gather", "ScatterElements") and x in self.elements and inputs[1] in self.numbers:
            base, elements = self.elements[x]
            if o.op == "Gather":
                self.keep(result, elements)
                return
            if o.attrs.get("reduction") in (None, "none") and inputs[2] not in self.elements:
                self.elements[result] = base, self.column(inputs[2])
                return
        if o.op == "Where" and x not in self.elements:
            sides = [self.elements[v] for v in inputs[1:] if v in self.elements]
            if len(sides) == 2 and sides[0][0] is sides[1][0] and _is_number(x):
                self.elements[result] = sides[0][0], np.where(self.column(x), sides[0][1], sides[1][1])
                return
        raise _Depends

    def column(self, v: Value) -> Array:
        """Return a single number of each step as an array of one axis."""
        if not _is_number(v) or v in self.elements or v in self.others:
            raise _Depends
        return self.values[v] if v in self.values else expand(self.operand(v, 0), (self.n,))

    def operand(self, v: Value, rank: int) -> Array:
        """Return an operand of an elementwise operator whose result has this rank in one step."""
        if v not in self.values:
            return self.array(v) if rank else reshape(self.array(v), ())
        if not rank:
            return self.values[v]
        return reshape(self.values[v], (self.n, *[1] * (rank - len(v.shape)), *v.shape))


def _is_number(v: Value) -> bool:
    """Return whether a value has a single element, in any rank."""
    return all(type(d) is int and d == 1 for d in v.shape)
