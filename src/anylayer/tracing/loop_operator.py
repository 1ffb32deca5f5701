"""The operator Loop: a function that is repeated, recorded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.errors import TraceError
from anylayer.graph.ir import Value
from anylayer.graph.symbolic import same_shape
from anylayer.network import Array, TensorType
from anylayer.tracing.array import TracedArray
from anylayer.tracing.counts import count_of
from anylayer.tracing.dtypes import BOOL, I8
from anylayer.tracing.keys import OUTSIDE
from anylayer.tracing.primitives import gather
from anylayer.tracing.record import graph_of, trace, value_of

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
    most: the largest number of rows, and of steps where `limit` is None. If the condition still holds then, an
        index in the body is out of range, which engines refuse.
    always: whether the condition always holds, so that `limit` is the number of steps.

    Raises TraceError if a state changes its shape or dtype.
    """
    graph = graph_of([limit, condition, *states, *others])
    if graph is None:
        raise TraceError("a loop is recorded without a traced input")
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
    rows = inner.outputs[1 + len(states) :]
    if rows:
        fixed = limit is not None and type(limit) is not TracedArray
        number = int(np.asarray(limit).reshape(())) if fixed else most
        steps = number if fixed and always else count_of(TracedArray(graph, Value("steps", (), I8)), number)
        if type(steps) is int and steps == 0:
            return [*(TracedArray(graph, v) for v in states), *(np.zeros((0, *v.shape), v.dtype) for v in rows)]
    inputs = [
        _scalar(most if limit is None else limit, I8),
        _scalar(True if condition is None else condition, BOOL),
        *states,
        *traced,
    ]
    outputs = graph.emit(
        "Loop",
        inputs,
        [*((v.shape, v.dtype) for v in states), *(((steps, *v.shape), v.dtype) for v in rows)],
        {"states": len(states)},
        body=inner,
    )
    if rows and type(steps) is not int:
        graph.selections.append(outputs[len(states)])
    return [TracedArray(graph, v) for v in outputs]


def end_at(most: int, step: Any, go: Any) -> Any:
    """Return the condition of a loop, with an index that engines refuse if it still holds after `most` steps."""
    too_many = np.logical_and(step == most - 1, go)
    return gather(go.reshape(1), np.where(too_many.reshape(()), OUTSIDE, np.int64(0)), 0)


def _scalar(x: Any, dtype: Any) -> Value:
    """Return a limit or a condition as a value of rank 0."""
    return value_of((x if type(x) is TracedArray else np.asarray(x, dtype)).reshape(()))
