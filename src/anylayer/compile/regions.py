"""Find the parts of a plan that compiled loops may compute faster than an engine's operators."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from anylayer.compile.plan import Plan
from anylayer.compile.segments import nodes_with_operators
from anylayer.graph import Op
from anylayer.graph.operators import COSTLY, COUNTED, FUSED, FUSES, LOOPS, REARRANGES, VIEWS
from anylayer.graph.sizes import stand_for
from anylayer.network import TensorType
from anylayer.source import TracedNode

_HEAVY = 1 << 17
"""A region is tried if its operators compute at least this many elements in total: each operator of a trace reads
and writes memory, which compiled loops avoid."""
_TWICE = COSTLY | (REARRANGES - VIEWS)
"""Operators whose elements count twice: costly functions, and new orders, for which engines have general code."""
_LONG = 24
"""A region is tried if it has at least this many operators. An engine needs a microsecond or more for each."""
_MAX_KINDS = 3
"""The largest number of kinds of regions (types of nodes, with the types of their inputs) that are tried per
network. To compile a region takes one to three seconds the first time."""
_MAX_REGIONS = 8
"""The largest number of regions of a kind that is tried. Each of them may have weights in its code."""

Region = tuple[int, ...]
"""Nodes between which no other node has to run, as their indices in `Plan.nodes`, in computing order."""


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of a plan. `rank` is the place of each node in an order in which those of each are together."""

    regions: list[Region]
    rank: dict[int, int]


def find_regions(plan: Plan) -> Regions:
    """Return each custom layer, and the largest connected sets of built-in nodes that become fast loops.

    A built-in node that reads the result of a convolution or product element by element is in none: engines
    compute it together with the convolution. A node that reads an array whose size depends on data is in none
    either.
    """
    level: dict[int, int] = {}
    root: dict[int, int] = {}
    fused: set[int] = set()
    producers: dict[str, int] = {}
    nodes = nodes_with_operators(plan)
    for i in nodes:
        t = plan.nodes[i]
        before = [producers[name] for name in t.node.inputs if name in producers]
        producers.update(dict.fromkeys(t.node.outputs, i))
        operators = _operators(t)
        follows = bool(before) and fused.issuperset(before) and all(op in FUSED for op in operators)
        if follows or any(op in FUSES for op in operators):
            fused.add(i)
        elif not _is_custom(t) and all(op in LOOPS or op in COUNTED for op in operators) and _is_static(operators):
            root[i] = i
        level[i] = max((level[p] + (p in root and i not in root) for p in before), default=0)
        for p in before if i in root else ():
            if p in root and level[p] == level[i]:
                a, b = root[p], root[i]
                root.update({k: min(a, b) for k, r in root.items() if r in (a, b)})
    order = sorted(nodes, key=lambda i: (level[i], i in root, root.get(i, i), i))
    groups: dict[int, list[int]] = {}
    for i in order:
        if i in root or (_is_custom(plan.nodes[i]) and _is_static(_operators(plan.nodes[i]))):
            groups.setdefault(root.get(i, i), []).append(i)
    return Regions([tuple(group) for group in groups.values()], {i: k for k, i in enumerate(order)})


def kinds_of_regions(plan: Plan, regions: Sequence[Region]) -> list[list[Region]]:
    """Return the regions that may be worth compiling, those of a kind together, the heaviest first. A small region
    is worth it only if it is the whole network: one call then computes all of its operators."""
    by_kind: dict[tuple[tuple[str, tuple[TensorType | None, ...]], ...], list[Region]] = {}
    work: dict[Region, int] = {}
    for region in regions:
        nodes = [plan.nodes[i] for i in region]
        operators = [op for t in nodes for op in _operators(t) if op not in VIEWS or _is_custom(t)]
        work[region] = sum(_elements(op) for op in operators) - _elements_kept(plan, region)
        whole = len(region) == len(nodes_with_operators(plan)) and work[region] > 0
        if whole or work[region] >= _HEAVY or len(operators) >= _LONG:
            by_kind.setdefault(tuple((t.node.type, tuple(t.inputs)) for t in nodes), []).append(region)
    kinds = sorted(by_kind.values(), key=lambda kind: -sum(work[region] for region in kind))
    return [kind for kind in kinds if len(kind) <= _MAX_REGIONS][:_MAX_KINDS]


def _elements(op: Op) -> int:
    """Return the number of elements that an operator computes, in all iterations: for a loop whose number of
    iterations is data, as many as make a region worth trying."""
    if op.body is not None:
        limit = op.constant(0)
        return _HEAVY if limit is None else int(limit.flat[0]) * sum(map(_elements, op.body.ops))
    return sum(math.prod(stand_for(v.shape)) for v in op.outputs) * (2 if op in _TWICE else 1)


def _elements_kept(plan: Plan, region: Region) -> int:
    """Return the number of elements that loops write, too: those of a built-in region's outputs. A custom layer is
    always tried where it is heavy."""
    if _is_custom(plan.nodes[region[0]]):
        return 0
    outputs = outputs_of(plan, region)
    produced = {name: plan.types[name] for i in region for name in plan.nodes[i].node.outputs if name in outputs}
    return sum(math.prod(stand_for(kind.shape)) for kind in produced.values())


def outputs_of(plan: Plan, region: Region) -> set[str]:
    """Return the names of the values that nodes outside of a region or the network's outputs read."""
    inside = {*region}
    return set(plan.outputs.values()).union(*(t.node.inputs for i, t in enumerate(plan.nodes) if i not in inside))


def _operators(t: TracedNode) -> Sequence[Op]:
    return t.body.ops if t.body is not None else ()


def _is_custom(t: TracedNode) -> bool:
    return t.bound is not None and not t.bound.definition.built_in


def _is_static(operators: Sequence[Op]) -> bool:
    """Return whether all sizes are numbers, or numbers of elements that the loops of these operators count."""
    inside = {v for op in operators for v in op.outputs if op in COUNTED}
    values = [v for op in operators for v in (*op.inputs, *op.outputs) if v not in inside]
    is_static = all(v is None or all(isinstance(d, int) for d in v.shape) for v in values)
    return is_static and all(op.body is None or _is_static(op.body.ops) for op in operators)
