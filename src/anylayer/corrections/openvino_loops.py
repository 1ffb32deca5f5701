"""Loops, which OpenVINO (2026.4) computes wrongly on a CPU without a step, or writes over their inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.corrections._openvino import longer
from anylayer.corrections.corrector import Corrector
from anylayer.graph import Graph, Op, Value
from anylayer.graph.operators import SELECTS
from anylayer.optimize.rules import rule


@rule("Loop", kind="must", targets=("openvino", "onnx file"))
def _loop(new: Corrector, o: Op) -> list[Value] | None:
    """Cut the stacked rows where the loop takes no step, and let the body read each state: then OpenVINO returns
    the rows of the run before, and its states that the body does not read. Pass values that the body captures as
    states where OpenVINO may write over them: later steps would read what it has written.
    """
    states, body, limit, condition = o["states"], o.body, o.constant(0), o.constant(1)
    if body is None:
        return None
    positive = o.input(0) is None or (limit is not None and limit > 0)
    used = {v for b in body.ops for v in b.inputs} | {*body.outputs}
    missing = [i for i in range(1, states + 1) if body.inputs[1 + i] not in used]
    has_step = positive and (o.input(1) is None or (condition is not None and bool(condition)))
    missing, cuts = ([], False) if has_step else (missing, len(o.outputs) > states)
    captured = range(2 + states, len(body.inputs))
    written = [i for i in captured if _may_be_written(body, body.inputs[i])]
    if not missing and not cuts and not written:
        return None
    kinds = [(v.shape, v.dtype) for v in o.outputs]
    if cuts:
        kinds[states:] = [(longer(shape, 0), dtype) for shape, dtype in kinds[states:]]
    kinds[states:states] = [(body.inputs[i].shape, body.inputs[i].dtype) for i in written]
    results = new.graph.emit(
        "Loop",
        [*o.inputs[: 2 + states], *(o.inputs[i] for i in [*written, *(i for i in captured if i not in written)])],
        kinds,
        {**o.attrs, "states": states + len(written)},
        body=_body_with_states(o, body, missing, written),
        place=o.place,
        scope=o.scope,
    )
    stacked = results[states + len(written) :]
    if cuts:
        first, end = new.constant(np.zeros(1, np.int64)), _end_of_rows(new, o)
        rows = zip(stacked, o.outputs[states:])
        stacked = [new.step(o, "Slice", [x, first, end, first], v.shape, v.dtype) for x, v in rows]
    return [*results[:states], *stacked]


def _end_of_rows(new: Corrector, o: Op) -> Value:
    """Return the end of a slice of the rows of a loop: 0 if it takes no step."""
    condition, limit = o.input(1), o.input(0)
    zero = new.constant(np.array(0))
    if limit is not None:
        positive = new.step(o, "Greater", [limit, zero], (), np.bool_)
        condition = positive if condition is None else new.step(o, "And", [condition, positive], (), np.bool_)
    every = new.constant(np.array([np.iinfo(np.int32).max], np.int64))
    return new.step(o, "Where", [condition, every, new.constant(np.zeros(1, np.int64))], (1,), np.int64)


def _may_be_written(body: Graph, value: Value) -> bool:
    """Return whether OpenVINO may write the result of an operator over a value that the body captures: it does so
    for a scalar, and where the operator reads a view of the value.
    """
    readers = [b for b in body.ops if value in b.inputs]
    if value.shape == ():
        return bool(readers)
    return any(b in SELECTS and all(v is None or v.const is not None for v in b.inputs[1:]) for b in readers)


def _body_with_states(o: Op, body: Graph, missing: Sequence[int], written: Sequence[int]) -> Graph:
    """Return the body of a loop with the inputs `written` as additional last states.

    missing: the outputs of states that the body does not read. They read them in a step -1, which never comes.
    """

    def step(op: str, inputs: list[Value | None], like: Value) -> Value:
        result = Value(new.name(op.lower()), like.shape, like.dtype)
        new.ops.append(Op(op, inputs, [result], {}, o.place))
        new.producers[result] = new.ops[-1]
        return result

    new, end = body.twin(), 1 + o["states"]
    new.ops, new.producers, outputs = [*body.ops], {**body.producers}, [*body.outputs]
    number, go = body.inputs[:2]
    condition = step("Less", [number, body.constant(np.array(0))], go) if missing else None
    for i in missing:
        outputs[i] = step("Where", [condition, body.inputs[1 + i], outputs[i]], outputs[i])
    states = [body.inputs[i] for i in written]
    captured = [v for v in body.inputs[end + 1 :] if v not in states]
    new.inputs = [*body.inputs[: end + 1], *states, *captured]
    new.outputs = [*outputs[:end], *(step("Identity", [v], v) for v in states), *outputs[end:]]
    return new
