"""The nodes of two compared networks side by side, one row per pair."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from anylayer.errors import plural, some
from anylayer.inspect.correspondence import Side, plain_name
from anylayer.inspect.diff_details import Detail, details, without_same_weights
from anylayer.inspect.differences import Comparer, Difference
from anylayer.inspect.listing import flat_params, short
from anylayer.network import Node, TensorType
from anylayer.numerics import difference_text

_REVEALED = 30
"""The number of params of a node that are listed."""


@dataclass(slots=True)
class Cell:
    """A node of one side, or several that differ together."""

    names: tuple[str, ...]
    types: tuple[str, ...]
    params: str
    outputs: tuple[str, ...]
    fields: list[list[str]]


@dataclass(slots=True)
class DiffRow:
    """A node of A and the node of B that corresponds to it, or one of both alone.

    `status` is "same", "differs", "folded" (part of what a node of the other side computes), "moved" (elements are
    only rearranged, or nothing is done) or "not compared". `how` says how the pair was found. `error` is relative
    to the largest value. `first` marks the first difference.
    """

    a: Cell | None
    b: Cell | None
    status: str
    error: float | None = None
    how: str = ""
    note: str = ""
    details: list[Detail] = field(default_factory=list)
    first: bool = False


def rows_of(comparer: Comparer) -> list[DiffRow]:
    """Return the rows, in the order of A's nodes, with nodes of B alone after those that they follow."""
    return _Rows(comparer).rows()


class _Rows:
    def __init__(self, comparer: Comparer) -> None:
        self.c, self.a, self.b = comparer, comparer.a, comparer.b
        self.linked: dict[str, str] = {}
        for name, link in comparer.links.items():
            self.linked.setdefault(link.name, name)
        self.differing = {k for d in comparer.differences for k in d.a_nodes}
        self.changed = {k for d in comparer.differences for k in d.b_nodes}

    def rows(self) -> list[DiffRow]:
        partners = self._partners()
        used = set(partners.values())
        after: dict[int, list[DiffRow]] = {}
        at_b = {i: k for k, i in partners.items()}
        place = {d.b_nodes[0]: d for d in self.c.differences if d.b_nodes and not d.a_nodes}
        differences: dict[int, list[Difference]] = {}
        for d in self.c.differences:
            if d.a_nodes:
                differences.setdefault(d.a_nodes[0], []).append(d)
        last = -1
        for i in range(len(self.b.nodes)):
            if i in at_b:
                last = max(last, at_b[i])
            elif i in self.changed:
                if i in place:
                    after.setdefault(last, []).append(self._difference(place[i]))
                last = max([last, *(k for d in self.c.differences if i in d.b_nodes for k in d.a_nodes)])
            elif i not in used:
                after.setdefault(last, []).append(self._alone(i, self.b, self.a))
        rows = after.get(-1, [])
        for k in range(len(self.a.nodes)):
            if k in differences:
                rows += map(self._difference, differences[k])
            elif k in partners:
                rows.append(self._pair(k, partners[k]))
            elif k not in self.differing:
                rows.append(self._alone(k, self.a, self.b))
            rows += after.get(k, [])
        return rows

    def _partners(self) -> dict[int, int]:
        """Return the node of B for each node of A that has one: of the same operators before others."""
        candidates: dict[int, list[int]] = {}
        for i, node in enumerate(self.b.nodes):
            link = next((self.c.links[n] for n in node.outputs if n in self.c.links), None)
            k = None if link is None else self._computing(self.a.producers.get(link.name), self.b.kinds[i])
            if k is not None and i not in self.changed and k not in self.differing:
                candidates.setdefault(k, []).append(i)
        return {
            k: min(of, key=lambda i: (self.b.kinds[i] != self.a.kinds[k], not self.b.kinds[i], i))
            for k, of in candidates.items()
        }

    def _computing(self, k: int | None, kinds: tuple[str, ...]) -> int | None:
        """Return the node of A that computed what node k only rearranges, if B's node computes."""
        while k is not None and kinds and not self.a.kinds[k]:
            before = self.a.producers.get(self.a.nodes[k].inputs[0])
            if before is None:
                return k
            k = before
        return k

    def _pair(self, k: int, i: int) -> DiffRow:
        a, b = self.a.nodes[k], self.b.nodes[i]
        links = [self.c.links[n] for n in b.outputs if n in self.c.links]
        values = {link.name for link in links}
        by_name = a.name == b.name or not {*map(plain_name, values)}.isdisjoint(map(plain_name, b.outputs))
        how = ["name" if by_name else "values", *dict.fromkeys(str(link.how) for link in links if str(link.how))]
        error = max((link.error for link in links), default=None)
        alike = self.a.kinds[k] == self.b.kinds[i]
        facts = without_same_weights(details([self.a.tracings[k]], [self.b.tracings[i]])) if alike else []
        return DiffRow(self._cell(self.a, [k]), self._cell(self.b, [i]), "same", error, ", ".join(how), "", facts)

    def _difference(self, d: Difference) -> DiffRow:
        a = [self.a.tracings[k] for k in d.a_nodes]
        b = [self.b.tracings[i] for i in d.b_nodes]
        x, y = d.a_array, d.b_array
        if x.shape != y.shape:
            facts = [("shape", str(TensorType(x.shape, x.dtype)), str(TensorType(y.shape, y.dtype)))]
        elif np.array_equal(np.sort(x, axis=None), np.sort(y, axis=None)):
            facts = [("numbers", "the same, in another order", "")]
        else:
            facts = [("numbers", difference_text(d.error, d.scale), "")]
        facts += details(a, b)
        note = "" if d.rejoins else "nothing after it corresponds any more"
        if not d.b_nodes:
            note = f"B lacks {_node_names(self.a, d.a_nodes)}"
        elif not d.a_nodes:
            note = f"A lacks {_node_names(self.b, d.b_nodes)}"
        cells = [self._cell(side, nodes) for side, nodes in ((self.a, d.a_nodes), (self.b, d.b_nodes))]
        first = d is self.c.differences[0]
        return DiffRow(cells[0], cells[1], "differs", d.error / d.scale, "", note, facts, first)

    def _alone(self, i: int, side: Side, other: Side) -> DiffRow:
        """Return the row of a node without a partner."""
        status, note = "folded", ""
        target = self._next_linked(i, side)
        if not side.kinds[i]:
            status = "moved"
        elif target is None:
            status = "not compared"
        else:
            name = target if side is self.b else self.linked[target]
            value = self.c.links[name].name if side is self.b else name
            k = other.producers.get(value)
            note = f"part of '{other.nodes[k].name}'" if k is not None else ""
        cell = self._cell(side, [i])
        return DiffRow(cell if side is self.a else None, cell if side is self.b else None, status, note=note)

    def _next_linked(self, i: int, side: Side) -> str | None:
        """Return the next value after a node that the other side has, too."""
        left, seen = [i], {i}
        while left:
            k = left.pop(0)
            for name in side.nodes[k].outputs:
                if name in (self.linked if side is self.a else self.c.links):
                    return name
                follow = [j for j in side.consumers.get(name, ()) if j not in seen]
                seen.update(follow)
                left += follow
        return None

    @staticmethod
    def _cell(side: Side, nodes: Iterable[int]) -> Cell | None:
        chosen = [side.nodes[k] for k in nodes]
        if not chosen:
            return None
        types = [str(t) for k in nodes for t in side.tracings[k].outputs[:1]]
        fields = [f for node in chosen for f in flat_params("", node.params) if f[1]][:_REVEALED]
        return Cell(
            tuple(n.name for n in chosen),
            tuple(n.type for n in chosen),
            _params(chosen),
            tuple(types[-1:]),
            fields,
        )


def _params(nodes: list[Node]) -> str:
    return short(nodes[-1].params) if len(nodes) == 1 else plural(len(nodes), "node")


def _node_names(side: Side, nodes: list[int]) -> str:
    return some([f"'{side.nodes[k].name}' ({side.nodes[k].type})" for k in nodes])
