"""Lanes: where the rows of a graph are drawn, and which lines lead from row to row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Row:
    """One row of a drawn graph.

    `lane` is the column of the node. `above` are the lanes of its producers, whose lines end at the node.
    `through` are the lanes whose lines pass the row. `below` says whether later rows read the node.
    `starts` says that the node reads an input of the network, `ends` that it gives one of its outputs.
    """

    lane: int
    above: list[int] = field(default_factory=list)
    through: list[int] = field(default_factory=list)
    below: bool = False
    starts: bool = False
    ends: bool = False


def lanes(nodes: Sequence[tuple[Sequence[str], Sequence[str]]], outputs: Sequence[str]) -> list[Row]:
    """Return a row for each node, which is given as its inputs and outputs, in computing order.

    A node keeps its lane until its last consumer. It continues the lane of a producer that has no later consumer,
    and takes the leftmost free lane otherwise, so that a chain is one straight line.
    """
    public = {*outputs}
    producer: dict[str, int] = {}
    sources: list[list[int]] = []
    last = [-1] * len(nodes)
    rows: list[Row] = []
    for i, (given, made) in enumerate(nodes):
        found = sorted({producer[name] for name in given if name in producer})
        for p in found:
            last[p] = i
        sources.append(found)
        starts = any(name and name not in producer for name in given)
        rows.append(Row(0, starts=starts, ends=not public.isdisjoint(made)))
        producer.update(dict.fromkeys(made, i))
    busy: dict[int, int] = {}
    for i, row in enumerate(rows):
        ending = [p for p in sources[i] if last[p] == i]
        row.above = sorted(rows[p].lane for p in sources[i])
        row.through = sorted(lane for lane, p in busy.items() if p not in ending)
        for p in ending:
            del busy[rows[p].lane]
        row.lane = min((rows[p].lane for p in ending), default=_free(busy))
        row.below = last[i] > i
        if row.below:
            busy[row.lane] = i
    return rows


def _free(busy: dict[int, int]) -> int:
    """Return the leftmost lane that is free."""
    lane = 0
    while lane in busy:
        lane += 1
    return lane
