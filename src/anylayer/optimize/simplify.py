"""Rewrite a graph into an equal one that engines run faster.

The rules are in optimize/rewrites, their order in optimize/order.py. Rules of one target name it, with what was
measured.
"""

from __future__ import annotations

from anylayer import optimize
from anylayer.graph.ir import Graph
from anylayer.optimize.order import STAGES, load_rules
from anylayer.optimize.rules import RULES, Rewriter, Rule, RuleLog, chooser

__all__ = ["RULES", "simplify"]

MAX_PASSES = 3
"""The largest number of times that the rules of a stage are tried on a graph."""


def simplify(graph: Graph, engine: str | None = None, *, exact: bool = False, log: RuleLog | None = None) -> Graph:
    """Return a graph that computes the same for finite values. The given graph is not changed.

    engine: the engine that runs the graph; None applies the rules for all engines only.
    exact: leave out the rules that change last bits.
    log: gets the trials of all rules.
    """

    def rules_of(*stages: str) -> list[Rule]:
        """Return the rules of these stages, loaded for the operators that the graph has by now."""
        load_rules("optimize", None if log is not None else graph, engine)
        return [r for stage in stages for r in RULES if r.stage == stage and r.suits(engine, exact=exact)]

    if log is not None:
        suited = rules_of(*(stage for stages, _ in STAGES for stage in stages))
        log.others = chooser([r for r in RULES if r.kind != "must" and r.stage != "layout" and r not in suited])
    finished: dict[tuple[str, ...], Graph] = {}
    for stages, _ in STAGES:
        if "layout" in stages:
            if any(o.op == "Transpose" for o in graph.ops):
                graph = optimize.layout.propagate_layouts(graph, exact=exact)
            continue
        for _ in range(MAX_PASSES):
            rules = rules_of(*stages)
            if not rules or finished.get(stages) is graph:
                break
            before = [o.op for o in graph.ops]
            graph = Rewriter(graph, log).run(rules)
            graph.drop_dead()
            if [o.op for o in graph.ops] == before:
                break
        finished[stages] = graph
    return graph
