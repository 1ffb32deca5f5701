"""Rewrite a graph into an equal one that engines run faster.

The rules are in optimize/rewrites, their order in optimize/order.py. Rules of one target name it, with what was
measured.
"""

from __future__ import annotations

from collections.abc import Sequence

from anylayer.graph.ir import Graph
from anylayer.optimize.layout import propagate_layouts
from anylayer.optimize.order import STAGES, load_rules
from anylayer.optimize.rules import RULES, Rewriter, Rule, RuleLog, chooser

__all__ = ["RULES", "simplify"]


def simplify(graph: Graph, engine: str | None = None, *, exact: bool = False, log: RuleLog | None = None) -> Graph:
    """Return a graph that computes the same for finite values. The given graph is not changed.

    engine: the engine that runs the graph; None applies the rules for all engines only.
    exact: leave out the rules that change last bits.
    log: gets the trials of all rules.
    """
    load_rules("optimize")
    rules = [r for r in RULES if r.suits(engine, exact=exact)]
    if log is not None:
        log.others = chooser([r for r in RULES if r.kind != "must" and r.stage != "layout" and r not in rules])
    finished: dict[tuple[str, ...], Graph] = {}
    for stages, _ in STAGES:
        here = [r for stage in stages for r in rules if r.stage == stage]
        if "layout" in stages:
            graph = propagate_layouts(graph, exact=exact)
        elif here and finished.get(stages) is not graph:
            graph = finished[stages] = _repeated(graph, here, log)
    return graph


def _repeated(graph: Graph, rules: Sequence[Rule], log: RuleLog | None) -> Graph:
    """Return the graph rewritten until nothing changes, at most three times."""
    for _ in range(3):
        before = [o.op for o in graph.ops]
        graph = Rewriter(graph, log).run(rules)
        graph.drop_dead()
        if [o.op for o in graph.ops] == before:
            break
    return graph
