"""Rewrite a graph into an equal one that engines run faster.

The rules are in optimize/rewrites, their order in optimize/order.py. A rule for one target names it,
and the times that were measured (Rule.figure).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from anylayer import optimize
from anylayer.graph.ir import Graph, Op
from anylayer.graph.operators import is_discontinuous
from anylayer.optimize.order import STAGES, load_rules
from anylayer.optimize.rules import RULES, Rewriter, Rule, RuleLog, chooser

_MAX_PASSES = 3
"""The largest number of times that the rules of a stage are tried on a graph."""


def simplify(graph: Graph, engine: str | None = None, *, exact: bool = False, log: RuleLog | None = None) -> Graph:
    """Return a graph that computes the same for finite values. The given graph is not changed.

    engine: the engine that runs the graph; None applies the rules for all engines only.
    exact: leave out the rules that change last bits.
    log: where the trials of all rules are recorded.
    """

    def rules_of(stages: Sequence[str], current: Graph) -> list[Rule]:
        """Return the rules of these stages. Load those for the operators of the graph; for a log, which also
        reports the rules of other engines, load all.
        """
        load_rules("optimize", None if log is not None else current, engine)
        return [r for stage in stages for r in RULES if r.stage == stage and r.suits(engine, exact=exact)]

    def loop(o: Op, body: Graph) -> Op:
        # a last bit of a state may decide a comparison in a later step
        is_exact = exact or any(map(is_discontinuous, body.ops))
        return replace(o, body=simplify(body, engine, exact=is_exact, log=log))

    graph = graph.with_loops(loop)
    if log is not None:
        suited = rules_of([stage for stages, _ in STAGES for stage in stages], graph)
        log.others = chooser([r for r in RULES if r.kind != "must" and r.stage != "layout" and r not in suited])
    finished: dict[tuple[str, ...], Graph] = {}
    for stages, _ in STAGES:
        if "layout" in stages:
            if any(o.op == "Transpose" for o in graph.ops):
                graph = optimize.layout.propagate_layouts(graph, exact=exact)
        elif finished.get(stages) is not graph:  # "reduce" stands twice, for graphs that "layout" changes
            graph = finished[stages] = _repeat(graph, partial(rules_of, stages), log)
    return graph


def lowered(graph: Graph, target: str) -> Graph:
    """Return a graph in which the "lower" rules of a target have replaced operators by simpler ones."""

    def rules_of(graph: Graph) -> list[Rule]:
        load_rules("optimize", graph, target)
        return [r for r in RULES if r.stage == "lower" and target in r.targets]

    operators = {op for r in rules_of(graph) for op in r.ops}
    return _repeat(graph, rules_of) if any(o.op in operators for o in graph.ops) else graph


def _repeat(graph: Graph, rules_of: Callable[[Graph], list[Rule]], log: RuleLog | None = None) -> Graph:
    """Return the graph, rewritten until the types of its operators stay the same, at most _MAX_PASSES times."""
    for _ in range(_MAX_PASSES):
        rules = rules_of(graph)
        if not rules:
            break
        before = [o.op for o in graph.ops]
        graph = Rewriter(graph, log).run(rules)
        graph.drop_dead()
        if [o.op for o in graph.ops] == before:
            break
    return graph
