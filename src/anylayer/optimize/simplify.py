"""Rewrite a graph into an equal one that engines run faster.

The rules are in optimize/rewrites, their order in optimize/order.py. Rules of one target name it, with what was
measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from anylayer.graph.ir import Graph, Op, Value
from anylayer.optimize.layout import propagate_layouts
from anylayer.optimize.order import STAGES, load_rules
from anylayer.optimize.rules import RULES, Rewriter, Rule, by_operator

__all__ = ["RULES", "simplify"]


def simplify(graph: Graph, engine: str | None = None, *, exact: bool = False) -> Graph:
    """Return a graph that computes the same for finite values. The given graph is not changed.

    engine: the engine that runs the graph; None applies the rules for all engines only.
    exact: leave out the rules that change last bits.
    """
    load_rules("optimize")
    rules = [r for r in RULES if r.suits(engine, exact=exact)]
    finished: dict[tuple[str, ...], Graph] = {}
    for stages, _ in STAGES:
        here = [r for stage in stages for r in rules if r.stage == stage]
        if "layout" in stages:
            graph = propagate_layouts(graph, exact=exact)
        elif here and finished.get(stages) is not graph:
            graph = finished[stages] = _repeated(graph, here)
    return graph


def _repeated(graph: Graph, rules: Sequence[Rule]) -> Graph:
    """Return the graph rewritten until nothing changes, at most three times."""
    for _ in range(3):
        before = [o.op for o in graph.ops]
        graph = _rewritten(graph, rules)
        if [o.op for o in graph.ops] == before:
            break
    return graph


def _rewritten(graph: Graph, rules: Sequence[Rule]) -> Graph:
    choices = by_operator(rules)
    new = Rewriter(graph)
    for o in graph.ops:
        here = replace(o, inputs=[new.mapped(v) for v in o.inputs])
        new.bind(o.outputs, _outputs(new, here, choices.get(o.op, ())))
    new.graph.outputs = [v for v in map(new.mapped, graph.outputs) if v is not None]
    new.graph.drop_dead()
    return new.graph


def _outputs(new: Rewriter, o: Op, rules: Sequence[Rule]) -> list[Value]:
    """Return the values that replace the outputs of an operator."""
    for r in rules if not o.domain else ():
        values: list[Value] | None = r.apply(new, o)
        if values is not None:
            return values
    return new.graph.append_copy(o, o.inputs)
