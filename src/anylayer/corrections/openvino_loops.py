"""Loops, which OpenVINO (2026.4) computes wrongly on a CPU without a step, or writes over their inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.corrections._openvino import longer
from anylayer.corrections.corrector import Corrector
from anylayer.graph import Graph, Op, Value
from anylayer.graph.operators import SELECTS
from anylayer.optimize.rules import rule


@rule("Loop", kind="must", targets=("openvino",))
def _loop(new: Corrector, o: Op) -> list[Value] | None:
    """Cut the stacked rows to the number of steps, and let the body read each state: after no step, OpenVINO
    returns the rows of the run before, and its states that the body does not read. Pass values that the body
    captures as states where OpenVINO may write over them: later steps would read what it has written.
    """
    states, body, limit, condition = o["states"], o.body, o.constant(0), o.constant(1)
    if body is None:
        return None
    positive = o.input(0) is None or (limit is not None and limit > 0)
    used = {v for b in body.ops for v in b.inputs} | {*body.outputs}
    missing = [i for i in range(1, states + 1) if body.inputs[1 + i] not in used]
    has_step = positive and condition is not None and bool(condition)
    counts = not has_step and (bool(missing) or len(o.outputs) > states)
    captured = range(2 + states, len(body.inputs))
    written = [i for i in captured if _may_be_written(body, body.inputs[i])]
    if not counts and not written:
        return None
    zero, one, first = (new.constant(a) for a in (np.array(0), np.ones(1, np.int64), np.zeros(1, np.int64)))
    start = [*([zero] if counts else []), *(o.inputs[i] for i in written)]
    kinds = [(v.shape, v.dtype) for v in o.outputs]
    if counts:
        kinds[states:] = [(longer(shape, 0), dtype) for shape, dtype in kinds[states:]]
    kinds[states:states] = [(v.shape, v.dtype) for v in start if v is not None]
    results = new.graph.emit(
        "Loop",
        [*o.inputs[: 2 + states], *start, *(o.inputs[i] for i in captured if i not in written)],
        kinds,
        {**o.attrs, "states": states + len(start)},
        body=_body_with_states(o, body, missing if counts else (), counts, written),
        place=o.place,
        scope=o.scope,
    )
    stacked = results[states + len(start) :]
    if counts:
        end = new.step(o, "Reshape", [results[states], one], (1,), np.int64)
        rows = zip(stacked, o.outputs[states:])
        stacked = [new.step(o, "Slice", [x, first, end, first], v.shape, v.dtype) for x, v in rows]
    return [*results[:states], *stacked]


def _may_be_written(body: Graph, value: Value) -> bool:
    """Return whether OpenVINO may write the result of an operator over a value that the body captures: it does so
    for a scalar, and where the operator reads a view of the value.
    """
    readers = [b for b in body.ops if value in b.inputs]
    if value.shape == ():
        return bool(readers)
    return any(b in SELECTS and all(v is None or v.const is not None for v in b.inputs[1:]) for b in readers)


def _body_with_states(o: Op, body: Graph, missing: Sequence[int], counts: bool, written: Sequence[int]) -> Graph:
    """Return the body of a loop with additional last states: the number of steps, where it `counts` them, and the
    inputs `written`.

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
    ends = [step("Identity", [v], v) for v in states]
    if counts:
        before = Value(body.name("before"), (), number.dtype)
        states, ends = [before, *states], [step("Add", [before, body.constant(np.array(1))], before), *ends]
    captured = [v for v in body.inputs[end + 1 :] if v not in states]
    new.inputs = [*body.inputs[: end + 1], *states, *captured]
    new.outputs = [*outputs[:end], *ends, *outputs[end:]]
    return new
