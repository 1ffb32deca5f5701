"""Cut a plan of one graph into several, which different engines may run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from operator import itemgetter

from anylayer.compile.plan import GraphStep, Plan, Step, concatenated
from anylayer.graph.facts import multiply_adds
from anylayer.graph.sizes import is_static
from anylayer.source import TracedNode

_MAX_SELECTIONS = 2
"""The largest number of nodes that select boxes or values around which a network is cut."""
_SELECTIONS = ("NonMaxSuppression", "TopK")


@dataclass(frozen=True, slots=True)
class EnginePart:
    """The nodes of a plan that an engine runs, as their indices in `Plan.nodes`."""

    engine: str
    nodes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Segment:
    """Consecutive nodes of a plan, as their indices in `Plan.nodes`.

    `heavy` says whether layers with weights are among them. `selects` says whether a node selects boxes or values.
    """

    nodes: tuple[int, ...]
    heavy: bool
    selects: bool


def segments(plan: Plan) -> list[Segment]:
    """Return the nodes of a plan's one graph as consecutive segments, between which it may be cut.

    The cuts are before the nodes that no layer with weights depends on, and around nodes that select boxes or
    values and that layers with weights depend on. No value between two segments has a size that depends on data.
    The list is empty where the plan has other steps.
    """
    if not _is_graph(plan):
        return []
    work = {i: multiply_adds(t.body.ops) for i, t in enumerate(plan.nodes) if t.body is not None}
    order, tail = _in_order(plan.nodes, work)
    selecting = [k for k, i in enumerate(order[:tail]) if _selects(plan.nodes[i])]
    places = {place for k in selecting[:_MAX_SELECTIONS] for place in (k, k + 1)} | {tail}
    open_ = _places_of_dynamic_sizes(plan, order)
    bounds = [0, *sorted(p for p in places - open_ if 0 < p < len(order)), len(order)]
    return [
        Segment(nodes, any(work[i] for i in nodes), any(_selects(plan.nodes[i]) for i in nodes))
        for nodes in (tuple(order[a:b]) for a, b in pairwise(bounds))
    ]


def with_parts(plan: Plan, parts: Sequence[EnginePart]) -> Plan:
    """Return a plan of one graph with one graph per part, each for the part's engine.

    parts: in computing order. The plan is returned unchanged if it has other steps, or if a layer with operators
    is in no part. This can occur when the same network is traced at other sizes.
    """
    nodes = {i for part in parts for i in part.nodes}
    if not _is_graph(plan) or any(t.body is not None and i not in nodes for i, t in enumerate(plan.nodes)):
        return plan
    groups = [[plan.nodes[i] for i in part.nodes] for part in parts]
    steps: list[Step] = []
    for k, (part, group) in enumerate(zip(parts, groups)):
        outputs = set(plan.outputs.values()).union(*(t.node.inputs for later in groups[k + 1 :] for t in later))
        step = concatenated(group, outputs, plan.constants)
        if step.outputs:
            steps.append(replace(step, engine=part.engine))
    return replace(plan, steps=steps)


def nodes_with_operators(plan: Plan) -> tuple[int, ...]:
    """Return the nodes of a plan's one graph, as their indices in `Plan.nodes`; () where it has other steps."""
    return tuple(i for i, t in enumerate(plan.nodes) if t.body is not None) if _is_graph(plan) else ()


def refine(
    plan: Plan, parts: Sequence[EnginePart], engines: Mapping[int, str], rank: Mapping[int, int]
) -> list[EnginePart]:
    """Return the parts of a plan after some nodes, by index, have moved to other engines.

    rank: the place of each node in a computing order, in which the nodes of each part are computed.
    A node stays where it is if a value whose size depends on data would have to pass from one engine to another.
    """
    order = [(i, part.engine) for part in parts for i in sorted(part.nodes, key=rank.__getitem__)]
    open_ = _places_of_dynamic_sizes(plan, [i for i, _ in order])
    placed = [(i, engine if open_ & {k, k + 1} else engines.get(i, engine)) for k, (i, engine) in enumerate(order)]
    return [EnginePart(name, tuple(i for i, _ in group)) for name, group in groupby(placed, key=itemgetter(1))]


def _is_graph(plan: Plan) -> bool:
    return len(plan.steps) == 1 and isinstance(plan.steps[0], GraphStep)


def _in_order(nodes: Sequence[TracedNode], work: dict[int, int]) -> tuple[list[int], int]:
    """Return the indices of the nodes with operators, and the number of them on which a layer with weights depends
    or that have weights; these come first.
    """
    needed: set[str] = set()
    before: set[int] = set()
    for i in sorted(work, reverse=True):
        if work[i] or needed.intersection(nodes[i].node.outputs):
            before.add(i)
            needed.update(nodes[i].node.inputs)
    return [*sorted(before), *sorted(work.keys() - before)], len(before)


def _places_of_dynamic_sizes(plan: Plan, order: Sequence[int]) -> set[int]:
    """Return the positions in the order where a value whose size depends on data would cross a cut."""
    last: dict[str, int] = {}
    for k, i in enumerate(order):
        last.update(dict.fromkeys(plan.nodes[i].node.inputs, k))
    crossed: set[int] = set()
    for k, i in enumerate(order):
        for name in plan.nodes[i].node.outputs:
            if name not in plan.constants and not is_static(plan.types[name].shape):
                crossed.update(range(k + 1, last.get(name, -1) + 1))
    return crossed


def _selects(t: TracedNode) -> bool:
    return t.body is not None and any(op.op in _SELECTIONS for op in t.body.ops)
