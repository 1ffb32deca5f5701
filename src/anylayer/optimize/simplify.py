"""Rewriting a graph into an equal one that engines run faster.

A rule looks at one operator, whose inputs are already rewritten, and gives what its outputs are instead, or None.
Rules that hold for every engine and leave every bit as it is have neither `engines` nor `inexact`; the others say
for which engines they pay and what they changed when measured.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from anylayer.folders import load
from anylayer.graph.facts import producer
from anylayer.graph.ir import Graph, Op, Value
from anylayer.graph.sizes import is_one, is_static
from anylayer.optimize.layout import arrange

Rewrite = Callable[["Rewriter", Op], "list[Value] | None"]


@dataclass(frozen=True, slots=True)
class Rule:
    """`rewrite` is tried on each operator `op`, on `engines` (all where empty). `inexact` rules change last bits
    and are left out where bits must stay; those that are `late` hide what other rules look for. `figure` is what
    was measured, before and after."""

    op: str
    rewrite: Rewrite
    engines: frozenset[str] = frozenset()
    inexact: bool = False
    late: bool = False
    figure: str = ""


RULES: list[Rule] = []

_JUMPS = frozenset(
    (
        *("Floor", "Ceil", "Round", "Sign", "Mod", "ArgMax", "ArgMin", "TopK", "NonZero", "OneHot"),
        *("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "NonMaxSuppression"),
        *("QuantizeLinear", "DynamicQuantizeLinear"),
    )
)
_BLURS = frozenset(
    (
        *(
            "Conv",
            "ConvTranspose",
            "MatMul",
            "Gemm",
            "AveragePool",
            "GridSample",
            "RoiAlign",
            "LSTM",
            "GRU",
            "RNN",
        ),
        *("ReduceSum", "ReduceMean", "ReduceProd", "ReduceL2", "CumSum", "LRN", "Softmax", "LogSoftmax"),
    )
)


def rule(
    *ops: str, engines: Sequence[str] = (), inexact: bool = False, late: bool = False, figure: str = ""
) -> Callable[[Rewrite], Rewrite]:
    """Enter a rule for some operators."""

    def enter(rewrite: Rewrite) -> Rewrite:
        RULES.extend(Rule(op, rewrite, frozenset(engines), inexact, late, figure) for op in ops)
        return rewrite

    return enter


class Rewriter:
    """The graph that is being made of another one."""

    def __init__(self, graph: Graph) -> None:
        self.graph = Graph(graph.prefix, graph.scope)
        self.graph.notes = list(graph.notes)
        self.graph.limit = graph.limit
        self.graph.inputs = list(graph.inputs)
        self.known: dict[Value, Value] = {v: v for v in graph.inputs}
        self._before_picks = _before_picks(graph.ops)
        self._old_reads = Counter(v for o in graph.ops for v in o.inputs)
        self._old_reads.update(graph.outputs)
        self._reads: Counter[Value] = Counter()

    def mapped(self, value: Value | None) -> Value | None:
        """What a value of the old graph is in the new one."""
        if value is None:
            return None
        found = self.known.get(value)
        if found is None:
            if value.const is None:
                raise ValueError(f"{value!r} is computed by no operator of the graph")
            found = self.known[value] = self.graph.constant(value.const, trusted=True)
        return found

    def maker(self, value: Value | None, op: str = "") -> Op | None:
        """The operator of ONNX that makes a value, where it is an `op`."""
        return producer(self.graph.producers, value, op)

    def picked(self, o: Op) -> bool:
        """Whether a floor, a comparison or the like follows, where a last bit can make a whole step; what sums up
        many values on the way has other last bits on every engine, and ends the search."""
        return any(v in self._before_picks for v in o.outputs)

    def take(self, old: Sequence[Value], new: Sequence[Value]) -> None:
        """Values of the old graph are these of the new one."""
        for v, w in zip(old, new):
            self.known[v] = w
            self._reads[w] += self._old_reads[v]

    def read_once(self, value: Value) -> bool:
        """Whether one operator alone reads a value; not where a rule of this round made it."""
        return self._reads[value] == 1

    def emit(self, like: Op, op: str, inputs: Sequence[Value | None], **attrs: Any) -> list[Value]:
        """A new operator in the place of another, with its outputs' types and names."""
        return self.graph.emit(
            op,
            inputs,
            [(v.shape, v.dtype) for v in like.outputs],
            attrs,
            place=like.place,
            scope=like.scope,
            names=[v.name for v in like.outputs],
        )

    def call(self, o: Op) -> list[Value]:
        """A call, as it stands."""
        return self.graph.append_copy(o, o.inputs)

    def constant(self, array: Any) -> Value:
        """A constant."""
        return self.graph.constant(array, trusted=True)


def simplify(graph: Graph, engine: str | None = None, *, exact: bool = False) -> Graph:
    """A graph that computes the same; the given one stays as it is. Values that are not finite may differ.

    Without `engine` only rules for all engines count; with `exact` only those that keep every bit.
    """
    load("optimize", "rewrites")  # enters its rules
    rules = [r for r in RULES if (not r.engines or engine in r.engines) and not (exact and r.inexact)]
    everywhere = [r for r in rules if not r.engines and not r.inexact]
    settled = _settled(graph, everywhere)
    done = arrange(settled, exact=exact)
    if done is not settled:
        done = _settled(done, everywhere)
    if not exact:
        done = _settled(done, [r for r in rules if r.inexact and not r.late])
    own = [r for r in rules if r.late or (r.engines and not r.inexact)]  # these hide what the others look for
    return _settled(done, [*everywhere, *own])


def _settled(graph: Graph, chosen: Sequence[Rule]) -> Graph:
    """The graph rewritten until nothing changes, at most three times: what a rule makes may be for another."""
    for _ in range(3):
        before = [o.op for o in graph.ops]
        graph = _rewritten(graph, chosen)
        if [o.op for o in graph.ops] == before:
            break
    return graph


def _rewritten(graph: Graph, chosen: Sequence[Rule]) -> Graph:
    rules: dict[str, list[Rule]] = {}
    for r in chosen:
        rules.setdefault(r.op, []).append(r)
    new = Rewriter(graph)
    for o in graph.ops:
        here = replace(o, inputs=[new.mapped(v) for v in o.inputs])
        made = new.call(here) if o.domain else None
        if made is None:
            made = next((m for r in rules.get(o.op, ()) if (m := r.rewrite(new, here)) is not None), None)
        if made is None:
            made = new.emit(here, o.op, here.inputs, **o.attrs)
        new.take(o.outputs, made)
    new.graph.outputs = [v for v in map(new.mapped, graph.outputs) if v is not None]
    new.graph.drop_dead()
    return new.graph


def _before_picks(ops: Sequence[Op]) -> set[Value]:
    """The values on which a jump depends, by id, through operators that keep each value apart."""
    found: set[Value] = set()
    for o in reversed(ops):
        jumps = bool(o.domain) or o.op in _JUMPS or (o.op == "Cast" and o.outputs[0].dtype.kind != "f")
        if jumps or (o.op not in _BLURS and any(v in found for v in o.outputs)):
            found.update(v for v in o.inputs if v is not None)
    return found


def _input(o: Op) -> Value:
    value = o.inputs[0]
    if value is None:
        raise ValueError(f"{o.op} without its first input")
    return value


# ------------------------------------------------------- for all engines, exact


@rule("Identity")
def _identity(new: Rewriter, o: Op) -> list[Value] | None:
    """Identity is its input."""
    return [_input(o)]


@rule("Max", "Min", "Sum", "Mean", "Dropout")
def _of_one(new: Rewriter, o: Op) -> list[Value] | None:
    """The largest of one array, their sum and so on is the array; Dropout gives what it gets. (OpenVINO 2026.4
    leaves these out while it reads, and with them the name of an input.)"""
    alone = len(o.inputs) == 1 or (o.op == "Dropout" and len(o.outputs) == 1 and o.inputs[2:] in ([], [None]))
    return [_input(o)] if alone and _input(o).shape == o.outputs[0].shape else None


@rule("Cast")
def _cast(new: Rewriter, o: Op) -> list[Value] | None:
    """A cast that changes nothing goes; one that undoes a widening one, too."""
    x, out = _input(o), o.outputs[0]
    if x.dtype == out.dtype:
        return [x]
    inner = new.maker(x, "Cast")
    if inner is None:
        return None
    origin = _input(inner)
    if not _widens(origin.dtype, x.dtype):
        return None
    return [origin] if origin.dtype == out.dtype else new.emit(o, "Cast", [origin], **o.attrs)


def _widens(a: np.dtype[Any], b: np.dtype[Any]) -> bool:
    """Whether each value of `a` is one of `b`, of the same kind."""
    return (a.kind == b.kind or a.kind == "b") and np.can_cast(a, b)


@rule("Expand", "Reshape")
def _same_shape(new: Rewriter, o: Op) -> list[Value] | None:
    """A change of shape that changes nothing goes."""
    x = _input(o)
    return [x] if x.shape == o.outputs[0].shape and is_static(x.shape) else None


@rule("Reshape")
def _reshapes(new: Rewriter, o: Op) -> list[Value] | None:
    """Of several reshapes in a row the last one counts."""
    inner, target = new.maker(o.inputs[0], "Reshape"), o.inputs[1]
    if inner is None or target is None or target.const is None or (target.const == 0).any():
        return None
    if _input(inner).shape == o.outputs[0].shape and is_static(o.outputs[0].shape):
        return [_input(inner)]
    return new.emit(o, "Reshape", [_input(inner), target])


@rule("Transpose")
def _transposes(new: Rewriter, o: Op) -> list[Value] | None:
    """Two transpositions are one, or none; one that only moves axes of size 1 is a reshape."""
    x, perm = _input(o), list(o.attrs["perm"])
    inner = new.maker(x, "Transpose")
    if inner is not None:
        x, perm = _input(inner), [inner.attrs["perm"][i] for i in perm]
    if perm == list(range(len(perm))):
        return [x]
    moving = [a for a in perm if not is_one(x.shape[a])]
    if moving == sorted(moving) and is_static(x.shape):
        again = Op(
            "Reshape", [x, new.constant(np.array(o.outputs[0].shape, np.int64))], o.outputs, {}, o.place, o.scope
        )
        return _reshapes(new, again) or new.emit(o, "Reshape", again.inputs)
    return None if inner is None else new.emit(o, "Transpose", [x], perm=perm)


@rule("Concat")
def _concats(new: Rewriter, o: Op) -> list[Value] | None:
    """A join of joins along the same axis is one; of a single array, none."""
    parts: list[Value | None] = []
    for v in o.inputs:
        inner = new.maker(v, "Concat")
        parts.extend(inner.inputs if inner is not None and inner.attrs == o.attrs else [v])
    if len(parts) == 1:
        return [v for v in parts if v is not None]
    return new.emit(o, "Concat", parts, **o.attrs) if len(parts) > len(o.inputs) else None


@rule("Slice")
def _slice_of_concat(new: Rewriter, o: Op) -> list[Value] | None:
    """A slice that is one of the arrays that were joined."""
    joined = new.maker(o.inputs[0], "Concat")
    bounds = [v.const for v in o.inputs[1:] if v is not None]
    if joined is None or len(bounds) != 4 or any(b is None or b.size != 1 for b in bounds):
        return None
    start, end, axis, step = (int(b[0]) for b in bounds if b is not None)
    if step != 1 or axis != joined.attrs["axis"] or not is_static(o.outputs[0].shape):
        return None
    at = 0
    for part in joined.inputs:
        if part is None or not is_static(part.shape):
            return None
        if at == start and part.shape == o.outputs[0].shape and end - start == part.shape[axis]:
            return [part]
        at += part.shape[axis]
    return None
