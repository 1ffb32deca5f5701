"""Which rules replace the operators of a node for an engine, and why others do not."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from anylayer.compile.inputs import input_types
from anylayer.compile.plan import make_plan
from anylayer.corrections import corrected
from anylayer.engines import installed
from anylayer.errors import EngineError, InputError, nearest, need
from anylayer.inspect.report import make_report
from anylayer.optimize.rules import RuleLog, Trial
from anylayer.optimize.simplify import simplify

if TYPE_CHECKING:
    from anylayer.api import Net
    from anylayer.graph import Graph


def why(
    net: Net, node: str, engines: Sequence[str] = (), shapes: Mapping[str, Sequence[int]] | None = None
) -> Iterator[str]:
    """Yield lines that say for each engine which operators a node records, which rules replace them, and why other
    rules do not.

    engines: by default the general ones that are installed. shapes: as in Net.compile.
    Raises InputError if there is no such node.
    """
    rows = {row.name: row for row in make_report(net.network, net.definitions, shapes).nodes}
    need(node in rows, f"{net.network.source}: there is no node '{node}'{nearest(node, [*rows])}", InputError)
    yield f"{node} ({rows[node].type})"
    if rows[node].where != "engine":
        yield f"  no operators: {rows[node].where} {rows[node].reason}".rstrip()
        return
    network = net.network
    plan = make_plan(network, net.definitions, input_types(network, shapes), network.outputs)
    for graph in (g for g in plan.graphs if any(o.scope == node for o in g.ops)):
        yield f"  records {_operators(graph, node)}"
        for engine in engines or [name for name, e in installed("cpu").items() if e.GENERAL]:
            yield from _for_engine(graph, node, engine)


def _for_engine(graph: Graph, node: str, engine: str) -> Iterator[str]:
    log = RuleLog()
    after = simplify(graph, engine, log=log)
    refusal = ""
    try:
        after = corrected(after, engine, log=log).graph
    except EngineError as error:
        refusal = f"    refused: {error}"
    yield f"  {engine}: {_operators(after, node) or 'nothing is left, other nodes compute it'}"
    if refusal:
        yield refusal
    shown: dict[str, str] = {}
    for trial in log.trials:
        if trial.op.scope == node and (trial.applied or trial.reason):
            rule = f"{trial.op.op}: {_sentence(trial)}"
            if shown.get(rule) != "":
                shown[rule] = "" if trial.applied else trial.reason
    for rule, reason in sorted(shown.items(), key=lambda item: item[1] != ""):
        yield f"    not applied to {rule}: {reason}" if reason else f"    applied to {rule}"


def _operators(graph: Graph, node: str) -> str:
    return " ".join(o.op for o in graph.ops if o.scope == node)


def _sentence(trial: Trial) -> str:
    """Return what a rule does: the first paragraph of its docstring, without its full stop."""
    text = trial.rule.apply.__doc__ or trial.rule.apply.__name__
    return " ".join(text.strip().split("\n\n")[0].split()).rstrip(".")
