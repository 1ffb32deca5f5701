"""Loops, which OpenVINO (2026.4) computes wrongly on a CPU where they end without a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.corrections._openvino import longer
from anylayer.corrections.corrector import Corrector
from anylayer.graph import Graph, Op, Value
from anylayer.optimize.rules import rule


@rule("Loop", kind="must", targets=("openvino",))
def _loop(new: Corrector, o: Op) -> list[Value] | None:
    """Cut the stacked rows to the number of steps, and let the body read each state: after no step, OpenVINO
    returns the rows of the run before, and its states that the body does not read.
    """
    states, body, limit, condition = o["states"], o.body, o.constant(0), o.constant(1)
    positive = o.input(0) is None or (limit is not None and limit > 0)
    if body is None or (positive and condition is not None and condition):
        return None
    used = {v for b in body.ops for v in b.inputs} | {*body.outputs}
    missing = [i for i in range(1, states + 1) if body.inputs[1 + i] not in used]
    if not missing and len(o.outputs) == states:
        return None
    zero, one, first = (new.constant(a) for a in (np.array(0), np.ones(1, np.int64), np.zeros(1, np.int64)))
    results = new.graph.emit(
        "Loop",
        [*o.inputs[: 2 + states], zero, *o.inputs[2 + states :]],
        [
            *((v.shape, v.dtype) for v in o.outputs[:states]),
            ((), zero.dtype),
            *((longer(v.shape, 0), v.dtype) for v in o.outputs[states:]),
        ],
        {**o.attrs, "states": states + 1},
        body=_body_with_counter(o, body, missing),
        place=o.place,
        scope=o.scope,
    )
    end = new.step(o, "Reshape", [results[states], one], (1,), np.int64)
    rows = zip(results[states + 1 :], o.outputs[states:])
    stacked = [new.step(o, "Slice", [x, first, end, first], v.shape, v.dtype) for x, v in rows]
    return [*results[:states], *stacked]


def _body_with_counter(o: Op, body: Graph, missing: Sequence[int]) -> Graph:
    """Return the body of a loop with the number of steps as an additional last state.

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
    before = Value(body.name("before"), (), number.dtype)
    condition = step("Less", [number, body.constant(np.array(0))], go) if missing else None
    for i in missing:
        outputs[i] = step("Where", [condition, body.inputs[1 + i], outputs[i]], outputs[i])
    steps = step("Add", [before, body.constant(np.array(1))], before)
    new.inputs = [*body.inputs[: end + 1], before, *body.inputs[end + 1 :]]
    new.outputs = [*outputs[:end], steps, *outputs[end:]]
    return new
