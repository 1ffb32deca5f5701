"""The operator Loop: a function that is repeated, recorded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.errors import TraceError
from anylayer.graph.intervals import Intervals
from anylayer.graph.ir import Graph, Value
from anylayer.graph.symbolic import extreme, same, same_shape
from anylayer.network import Array, DType, TensorType
from anylayer.tracing.array import TracedArray
from anylayer.tracing.counts import count_of
from anylayer.tracing.dtypes import BOOL, I8
from anylayer.tracing.keys import OUTSIDE
from anylayer.tracing.primitives import as_array, gather
from anylayer.tracing.record import graph_of, trace, value_of
from anylayer.tracing.size_arithmetic import constant_of, numbers

MAX_STEPS = 30_000
"""The largest number of steps of a loop."""


def record_loop(
    step: Callable[[list[Any]], Sequence[Any]],
    limit: Any,
    condition: Any,
    states: Sequence[Any],
    others: Sequence[Any],
    most: int,
    *,
    always: bool = False,
) -> list[Array]:
    """Record a loop, and return the last states and the stacked rows.

    step: maps the number of the step, the condition, the states and `others` to the condition, the states and
        rows. It runs while the condition holds, at most `limit` times.
    others: arrays that are the same in each step.
    most: the largest number of rows, and of steps. If there are more, an index is out of range, which engines
        refuse.
    always: whether the condition always holds, so that `limit` is the number of steps.

    Raises TraceError if a state changes its shape or dtype.
    """
    graph = graph_of([limit, condition, *states, *others])
    if graph is None:
        raise TraceError("a loop is recorded without a traced input")
    if type(limit) is TracedArray:
        sizes, limit = numbers(constant_of(limit)), steps_up_to(limit.reshape(()), most)
        most = most if sizes is None else extreme("max", extreme("min", sizes.item(), most), 0)
    states = [graph.constant(s) if type(s) is not TracedArray else s._value for s in states]
    traced = [x._value for x in others if type(x) is TracedArray]
    of_states = [TensorType(v.shape, v.dtype) for v in states]  # whose elements are not those of each step
    types = [TensorType((), I8), TensorType((), BOOL), *of_states, *(v.type for v in traced)]

    def body(arrays: list[Any]) -> Sequence[Any]:
        rest = iter(arrays[2 + len(states) :])
        go, *values = step(
            [*arrays[: 2 + len(states)], *(next(rest) if type(x) is TracedArray else x for x in others)]
        )
        if limit is None:
            go = end_at(most, arrays[0], go)
        return [go, *values]

    inner = trace(body, types, prefix=f"{graph.prefix}loop{len(graph.ops)}/", limit=graph.limit)
    for i, (v, w) in enumerate(zip(states, inner.outputs[1:])):
        if v.dtype != w.dtype or not same_shape(v.shape, w.shape):
            raise TraceError(f"state {i} of its loop is {v.type}, and {w.type} after a step")
    fixed = limit is not None and type(limit) is not TracedArray
    number = int(np.asarray(limit).reshape(())) if fixed else most
    go = True if condition is None else condition
    outputs = emit_loop(
        graph, inner, most if limit is None else limit, go, states, traced, number, fixed and always
    )
    return [TracedArray(graph, v) for v in outputs]


def emit_loop(
    graph: Graph,
    body: Graph,
    limit: object,
    condition: object,
    states: Sequence[Value],
    captured: Sequence[Value],
    most: int,
    always: bool,
    place: str | None = None,
) -> list[Value]:
    """Record the operator, and return the last states and the stacked rows.

    limit, condition: numbers or traced arrays. captured: what the body reads in addition. most: the largest number
    of rows. always: whether that is the number of steps. place: the line of the loop.
    """
    rows = body.outputs[1 + len(states) :]
    is_known = always or not rows or same(most, 0)
    steps = most if is_known else count_of(TracedArray(graph, Value("steps", (), I8)), most)
    if rows and type(steps) is int and steps == 0:
        return [*states, *(graph.constant(np.zeros((0, *v.shape), v.dtype)) for v in rows)]
    inputs = [*(_scalar(x, dtype) for x, dtype in ((limit, I8), (condition, BOOL))), *states, *captured]
    types = [*((v.shape, v.dtype) for v in states), *(((steps, *v.shape), v.dtype) for v in rows)]
    outputs = [*graph.emit("Loop", inputs, types, {"states": len(states)}, body=body, place=place)]
    if rows and type(steps) is not int and not always:
        graph.selections.append(outputs[len(states)])
    for i, state in enumerate(states):
        if _original(body, body.outputs[1 + i]) is body.inputs[2 + i]:
            outputs[i] = state
    return outputs


def _original(graph: Graph, value: Value) -> Value | None:
    """Return the value of which a value is a copy."""
    o = graph.producers.get(value)
    return _original(graph, o.first) if o is not None and o.op == "Identity" else value


def end_at(most: int, step: Any, go: Any) -> Any:
    """Return the condition of a loop, with an index that engines refuse if it still holds after `most` steps."""
    too_many = np.logical_and(step == most - 1, go)
    return gather(go.reshape(1), np.where(too_many.reshape(()), OUTSIDE, np.int64(0)), 0)


def steps_up_to(steps: Array, most: int) -> Array:
    """Return a traced number of steps, with an index that engines refuse if it is more than `most`.

    There are no steps then, because some engines go on after the index.
    """
    if type(steps) is TracedArray and Intervals(steps._graph.producers).of(steps._value)[1] <= most:
        return steps
    is_more = steps > most
    few = np.where(is_more, np.zeros((), steps.dtype), steps)
    return gather(few.reshape(1), np.where(is_more, OUTSIDE, np.int64(0)), 0)


def _scalar(x: object, dtype: DType) -> Value:
    """Return a limit or a condition as a value of rank 0."""
    return value_of((x if type(x) is TracedArray else as_array(x, dtype)).reshape(()))
