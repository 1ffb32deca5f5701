"""Lower a graph to loops: decide which values are held in memory, and fold the others into their consumers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anylayer.errors import LayerError
from anylayer.graph import Graph, Op, Value
from anylayer.loops import elementwise, movement, reductions, regions  # noqa: F401 (they enter their operators)
from anylayer.loops.composites import expanded
from anylayer.loops.ir import Argument, Buffer, Program
from anylayer.loops.lowering import ELEMENTS, NESTS, Lowering, Unsupported, sizes_of
from anylayer.loops.movement import concat_pieces
from anylayer.loops.opened import Opened
from anylayer.loops.reductions import copies

_EXPENSIVE = {
    "Exp",
    "Log",
    "Tanh",
    "Sin",
    "Cos",
    "Tan",
    "Erf",
    "Pow",
    "Atan",
    "Asin",
    "Acos",
    "Mod",
    "Sinh",
    "Cosh",
}
_CHEAP = 3
"""The cost up to which a value is computed again by each consumer: some loads and one or two operations."""
_OFTEN = 1.5
"""How often the elements of a value are read, from where it is worth holding in memory."""
_FEW = 4
"""An input has few elements if it has this many times fewer than the output."""
_WHOLE = {
    "Range", "Add", "Sub", "Mul", "Div", "Mod", "Neg", "Identity", "Reshape", "Squeeze", "Unsqueeze", "Expand",
    "Transpose", "Cast", "Inside",
}  # fmt: skip
_LARGEST = 400
"""The cost of a value that is held in memory even if it is read once, so that the code stays readable."""
_KINDS = {
    "Gather", "GatherElements", "GatherND", "Slice", "Transpose", "Reshape", "Expand", "Pad", "Tile", "Split",
    "Concat", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Shape", "Range", "ConstantOfShape", "Trilu",
}  # fmt: skip


def lower(source: Graph | Opened) -> Program:
    """Return the loops that compute a graph, or a layer that `opened` has traced.

    Raises LayerError for an operator without loops; it names the operator and the source line.
    """
    traced = source if isinstance(source, Opened) else Opened(source)
    graph = expanded(traced.graph)
    low = Lowering(graph, traced.ranges, traced.parameters)
    inputs = [Argument(f"input{i}", v.dtype, sizes_of(v)) for i, v in enumerate(graph.inputs)]
    outputs = [Argument(f"output{i}", v.dtype, sizes_of(v)) for i, v in enumerate(graph.outputs)]
    for argument, value in zip(inputs, graph.inputs):
        low.buffers[value] = Buffer(argument.name, argument.dtype, argument.shape, "input")
        low.all.append(low.buffers[value])
    targets = [Buffer(a.name, a.dtype, a.shape, "output") for a in outputs]
    low.all.extend(targets)
    for value, target in zip(graph.outputs, targets):
        low.wanted.setdefault(value, target)
    held = _held(graph)
    for op in graph.ops:
        with _naming(op):
            _one(low, op, held)
    for value, target in zip(graph.outputs, targets):
        if low.buffers.get(value) is not target:
            copies(low, value, target)
    used = low.used_buffers()
    return Program(
        inputs,
        outputs,
        list(traced.sizes),
        list(traced.guards),
        [b for b in low.all if b in used],
        low.body,
        low.scalars.data,
        low.space.extents,
        low.scalars.checks,
        [(local.name, param) for param, local in low.params.items()],
    )


class _naming:
    """A context that names the operator and its line in an error."""

    def __init__(self, op: Op) -> None:
        self.op = op

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, Unsupported):
            raise refused(self.op, error.message) from error


def refused(op: Op, why: str) -> LayerError:
    """Return the error for an operator that has no loops."""
    line = f" at {op.place}" if op.place else ""
    what = f"operator {op.op}{line} cannot become loops: {why}"
    return LayerError(what, op.scope) if op.scope else LayerError(what)


def _one(low: Lowering, op: Op, held: Mapping[Value, str]) -> None:
    """Append the loops of an operator, where it has its own or its output is held in memory."""
    if op.domain or (op.op not in NESTS and op.op not in ELEMENTS):
        raise Unsupported("no loops are written for it")
    if op.op in NESTS:
        NESTS[op.op](low, op)
        return
    for value in op.outputs:
        why = held.get(value)
        if why == "pieces":
            concat_pieces(low, op)
        elif why:
            target = low.wanted.get(value)
            buffer = target or Buffer(low.name("temporary"), value.dtype, sizes_of(value), "temporary")
            if target is None:
                low.all.append(buffer)
            copies(low, value, buffer)
            low.buffers[value] = buffer


def _held(graph: Graph) -> dict[Value, str]:
    """Return the values that are held in memory although they could be folded into their consumers.

    These are the outputs, and values that cost more than a few operations and are read more often than they have
    elements.
    """
    costs = _costs(graph)
    held: dict[Value, str] = dict.fromkeys(graph.outputs, "output")
    reads: dict[Value, float] = {}
    for op in reversed(graph.ops):
        times = 1.0
        for value in op.outputs if op.op not in NESTS else ():
            often, cost = reads.get(value, 1.0) > _OFTEN, costs[value]
            if op.op == "Concat" and cost > _CHEAP * len(op.inputs):
                held[value] = "pieces"
            elif cost > _LARGEST or (often and cost > _CHEAP):
                held.setdefault(value, "often read")
            if value not in held:
                times = max(times, reads.get(value, 1.0))
        for i, v in enumerate(op.inputs):
            if v is not None:
                reads[v] = max(reads.get(v, 0.0), times * _repeats(op, i, v))
    return held


def _costs(graph: Graph) -> dict[Value, float]:
    """Return how many operations an element of each value takes, where nothing before it is held in memory.

    Integers that are computed from loop variables cost nothing. An input with few elements counts as one that is
    held in memory, because it is, or is computed outside of the inner loops.
    """
    costs: dict[Value, float] = {}
    whole: set[Value] = set()
    for op in graph.ops:
        parts = [v for v in dict.fromkeys(op.inputs) if v is not None]
        simple = op.op in _WHOLE and all(
            v.dtype.kind == "i" and (v in whole or v.const is not None) for v in parts
        )
        for value in op.outputs:
            few = [v for v in parts if _FEW * _count(v) <= _count(value)]
            cost = sum(min(costs.get(v, 1.0), 1.0) if v in few else costs.get(v, 1.0) for v in parts)
            cost += 0 if op.op in _KINDS else 10 if op.op in _EXPENSIVE else 1
            if simple:
                whole.add(value)
            costs[value] = 0 if simple else 1 if op.op in NESTS else min(cost, 2 * _LARGEST)
    return costs


def _repeats(op: Op, i: int, v: Value) -> float:
    """Return how often an operator reads an element of its input `i`, on average."""
    own, count = max(_count(v), 1), max(map(_count, op.outputs))
    if op.op == "MatMul":
        return max(1.0, count * float(int((op.inputs[0] or v).shape[-1])) / own)
    if op.op == "TopK" and i == 0:
        return float(int(v.shape[op.attrs.get("axis", -1)]))
    return 1.0 if op.op in NESTS or op.op in ("Slice", "Split", "Concat") else count / own


def _count(v: Value) -> int:
    total = 1
    for d in v.shape:
        total *= int(d)
    return total
