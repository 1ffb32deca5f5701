"""Rewrite a graph into an equal one that engines run faster.

The rules are in optimize/rewrites. Rules that are faster on every engine and keep every bit have neither `engines`
nor `inexact`. The others name the engines on which they are faster, with what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anylayer.folders import load
from anylayer.graph.ir import Graph, Op, Value
from anylayer.optimize.layout import propagate_layouts
from anylayer.optimize.rules import RULES, Rewriter, Rule

__all__ = ["RULES", "simplify"]


def simplify(graph: Graph, engine: str | None = None, *, exact: bool = False) -> Graph:
    """Return a graph that computes the same for finite values. The given graph is not changed.

    engine: the engine that runs the graph; None applies the rules for all engines only.
    exact: leave out the rules that change last bits.
    """
    load("optimize", "rewrites")  # registers its rules
    rules = [r for r in RULES if (not r.engines or engine in r.engines) and not (exact and r.inexact)]
    general = [r for r in rules if not r.engines and not r.inexact]
    simplified = _repeated(graph, general)
    done = propagate_layouts(simplified, exact=exact)
    if done is not simplified:
        done = _repeated(done, general)
    if not exact:
        done = _repeated(done, [r for r in rules if r.inexact and not r.late])
    last = [
        r for r in rules if r.late or (r.engines and not r.inexact)
    ]  # these rules hide patterns that the other rules match
    return _repeated(done, [*general, *last])


def _repeated(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """Return the graph rewritten until nothing changes, at most three times."""
    for _ in range(3):
        before = [o.op for o in graph.ops]
        graph = _rewritten(graph, rules)
        if [o.op for o in graph.ops] == before:
            break
    return graph


def _rewritten(graph: Graph, rules: Sequence[Rule]) -> Graph:
    by_op: dict[str, list[Rule]] = {}
    for r in rules:
        by_op.setdefault(r.op, []).append(r)
    new = Rewriter(graph)
    for o in graph.ops:
        here = replace(o, inputs=[new.mapped(v) for v in o.inputs])
        new.bind(o.outputs, _outputs(new, here, by_op.get(o.op, ())))
    new.graph.outputs = [v for v in map(new.mapped, graph.outputs) if v is not None]
    new.graph.drop_dead()
    return new.graph


def _outputs(new: Rewriter, o: Op, rules: Sequence[Rule]) -> list[Value]:
    """Return the values that replace the outputs of an operator."""
    for r in rules if not o.domain else ():
        values = r.rewrite(new, o)
        if values is not None:
            return values
    return new.graph.append_copy(o, o.inputs)
