"""Loops whose steps do not depend on each other: `for i in range(n): y[i] = f(x[i])`.

Where each step of a recorded loop only reads element i of the arrays that it changes, and writes it, all steps are
computed at once: the operators of one step are recorded for arrays with an axis of the steps in front.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    inside: Sequence[Value],
    starts: Sequence[Array],
    results: Sequence[Value],
) -> list[Value] | None:
    """Return the last states of a loop and the stacked rows, or None if its steps depend on each other.

    ops: the operators of a step. n: the number of steps. inside: the values that stand for the number of the step,
    the condition, and the arrays that the loop changes. starts: these arrays before the loop. results: the states
    and the rows after a step.
    """
    first = len(graph.ops)
    try:
        steps = _Steps(graph, n, inside[0], dict(zip(inside[2:], starts)))
        for o in ops:
            steps.take(o)
        ends = [steps.last(v, state) for v, state in zip(results, inside[2:])]
        return [value_of(x) for x in (*ends, *map(steps.rows, results[len(ends) :]))]
    except _Depends:
        graph.forget(first)
        return None


class _Steps:
    """The values of all steps.

    values: arrays whose first axis are the steps, by the values of one step. elements: for arrays of which a step
    may have written its element, the array before the loop and these elements. numbers: the values that are the
    number of the step. outside: values that are the same in all steps, by those of the pass.
    """

    def __init__(self, graph: Graph, n: int, step: Value, states: Mapping[Value, Array]) -> None:
        if any(len(v.shape) != 1 or not same(v.shape[0], n) for v in states):
            raise _Depends
        self.graph, self.n = graph, n
        self.values: dict[Value, Array] = {step: arange(n)}
        self.numbers = {step}
        self.outside: dict[Value, Value] = {}
        self.elements = {v: (v, start) for v, start in states.items()}

    def last(self, result: Value, state: Value) -> Array:
        """Return the array that a state is after all steps."""
        base, elements = self.elements.get(result, (None, None))
        if elements is None or base is not state:
            raise _Depends
        return elements

    def rows(self, result: Value) -> Array:
        """Return what each step computes, stacked."""
        if result in self.elements:
            raise _Depends
        return (
            self.values[result] if result in self.values else expand(self.array(result), (self.n, *result.shape))
        )

    def array(self, v: Value) -> Array:
        """Return a value that is the same in all steps."""
        return TracedArray(self.graph, self.outside.get(v, v))

    def take(self, o: Op) -> None:
        """Compute an operator for all steps."""
        inputs = [v for v in o.inputs if v is not None]
        if not any(v in self.values or v in self.elements for v in inputs):
            if o.body is not None or (o in INDEXED and inputs[1].const is None):
                raise _Depends  # an index may only be inside of an array where the loop has a step
            copies = self.graph.append_copy(o, [v and self.outside.get(v, v) for v in o.inputs])
            self.outside.update(zip(o.outputs, copies))
            return
        if len(o.outputs) > 1 or o.domain or o.body is not None:
            raise _Depends
        x, result = inputs[0], o.outputs[0]
        if any(v in self.elements for v in inputs):
            self.take_state(o, inputs, result)
        elif o in ELEMENTWISE:
            operands = [v and value_of(self.operand(v, len(result.shape))) for v in o.inputs]
            types = [((self.n, *result.shape), result.dtype)]
            self.keep(result, TracedArray(self.graph, self.graph.append_copy(o, operands, types=types)[0]))
        elif o in VIEWS and x in self.values:
            self.keep(result, self.values[x])
            self.numbers |= {result} if x in self.numbers else set()
        elif o.op == "Gather" and inputs[1] not in self.values:
            self.keep(result, gather(self.values[x], self.array(inputs[1]), o["axis"] % len(x.shape) + 1))
        elif o.op == "Gather" and x not in self.values and o["axis"] == 0:
            is_whole = inputs[1] in self.numbers and same(x.shape[0], self.n)
            self.keep(result, self.array(x) if is_whole else gather(self.array(x), self.values[inputs[1]], 0))
        else:
            raise _Depends

    def take_state(self, o: Op, inputs: Sequence[Value], result: Value) -> None:
        """Compute an operator that reads an array of which a step has written its element."""
        x, *rest = inputs
        states = [self.elements[v] for v in rest if v in self.elements]
        if x in self.elements and not states and rest and rest[0] in self.numbers:
            if o.op == "Gather":
                self.keep(result, self.elements[x][1])
                return
            if o.op == "ScatterElements" and o.attrs.get("reduction") in (None, "none"):
                self.elements[result] = self.elements[x][0], self.column(rest[1])
                return
        if o.op == "Where" and len(states) == 2 and states[0][0] is states[1][0]:
            self.elements[result] = states[0][0], np.where(self.column(x), states[0][1], states[1][1])
            return
        raise _Depends

    def keep(self, result: Value, array: Array) -> None:
        """Keep the values of all steps."""
        self.values[result] = reshape(array, (self.n, *result.shape))

    def column(self, v: Value) -> Array:
        """Return a single number of each step as an array of one axis."""
        if v in self.elements or any(type(d) is not int or d != 1 for d in v.shape):
            raise _Depends
        return (
            expand(reshape(self.array(v), ()), (self.n,))
            if v not in self.values
            else reshape(self.values[v], (self.n,))
        )

    def operand(self, v: Value, rank: int) -> Array:
        """Return an operand of an elementwise operator whose result has this rank in one step."""
        if v not in self.values:
            return self.array(v)
        return reshape(self.values[v], (self.n, *[1] * (rank - len(v.shape)), *v.shape))
