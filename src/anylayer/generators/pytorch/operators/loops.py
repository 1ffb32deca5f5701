"""The operator Loop as a loop of Python, and as `if` where it runs once or not at all."""

from __future__ import annotations

import numpy as np

from anylayer.generators.pytorch.code import INDENT, Code, dtype_of, number
from anylayer.generators.pytorch.operators import live_operators, write_with_lines, writes
from anylayer.graph import Op, Value
from anylayer.writers._target import present


@writes("Loop")
def _loop(code: Code, op: Op) -> list[str]:
    """Write a loop, whose states are variables and whose rows are lists."""
    body, count = present(op.body), 2 + int(op["states"])
    limit, condition = (present(v) for v in op.inputs[:2])
    step, go, *arguments = body.inputs
    again, *ends = body.outputs
    ops = live_operators(body.ops, body.outputs)
    used = {*body.outputs, *(v for o in ops for v in o.inputs)}
    code.producers = {**code.producers, **body.producers}
    code.known.update((v, code.tensor(w)) for v, w in zip(arguments[count - 2 :], op.inputs[count:]) if v in used)
    states = list(zip(arguments, ends, op.inputs[2:count]))
    changed = [end is not before for before, end, _ in states]
    for (before, _, start), changes in zip(states, changed):
        code.known[before] = code.new("state") if changes else _start(code, present(start))
        if changes:
            code.line(f"{code.known[before]} = {_start(code, present(start))}")
    rows = [code.new("rows") for _ in ends[count - 2 :]]
    for name in rows:
        code.line(f"{name} = []")
    always = condition.const is not None and bool(condition.const.all())
    branch = code.producers.get(limit) if always and not rows else None
    once = branch is not None and branch.op == "Cast" and present(branch.inputs[0]).dtype == np.bool_
    position = code.new("i") if step in used and not once else "_"
    code.known.update({step: code.new("step") if position != "_" else "torch.tensor(0)", go: "torch.tensor(True)"})
    steps = str(int(limit.const.reshape(()))) if limit.const is not None else f"int({code.tensor(limit)})"
    if branch is not None and once:
        code.line(f"if {code.tensor(branch.inputs[0])}:")
    else:
        code.line(
            f"for {position} in range({steps if always else f'{steps} if {code.tensor(condition)} else 0'}):"
        )
    outside, code.lines = code.lines, []
    if position != "_":
        code.line(f"{code.known[step]} = torch.tensor({position})")
    write_with_lines(code, ops)
    for name, value in zip(rows, ends[count - 2 :]):
        code.line(f"{name}.append({code.tensor(value)})")
    goes_on = "" if once or again is go or (again.const is not None and again.const.all()) else code.tensor(again)
    pairs = [(code.known[before], code.tensor(end)) for before, end, _ in states if end is not before]
    names = {name for name, _ in pairs}
    if goes_on in names:  # it is the state before this step
        before_step, goes_on = goes_on, code.new("goes_on")
        code.line(f"{goes_on} = {before_step}")
    if any(end in names for _, end in pairs):
        code.line(f"{', '.join(name for name, _ in pairs)} = {', '.join(end for _, end in pairs)}")
    else:
        code.lines += [f"{name} = {end}" for name, end in pairs]
    if goes_on:
        code.lines += [f"if not {goes_on}:", f"{INDENT}break"]
    code.lines = [*outside, *(f"{INDENT}{line}" for line in code.lines or ["pass"])]
    runs = always and limit.const is not None and bool(limit.const.all())
    results = [code.known[before] for before, _, _ in states]
    return [*results, *(_rows_array(code, name, v, runs) for name, v in zip(rows, ends[count - 2 :]))]


def _start(code: Code, value: Value) -> str:
    """Return the first value of a state. A constant number is written as such."""
    if value.const is None or value.shape or value in code.known:
        return code.tensor(value)
    return f"torch.tensor({number(value.const[()])}, dtype={dtype_of(value.dtype)})"


def _rows_array(code: Code, rows: str, row: Value, runs: bool) -> str:
    """Return the rows as one array. runs: whether there is one in any case."""
    stacked = f"torch.stack({rows})"
    if runs:
        return stacked
    return f"{stacked} if {rows} else torch.zeros({code.sizes((0, *row.shape))}, dtype={dtype_of(row.dtype)})"
