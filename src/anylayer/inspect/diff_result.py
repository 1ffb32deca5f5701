"""The result of a comparison of two networks, as text, JSON and a page in two columns."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import plural, some, wording
from anylayer.inspect.correspondence import Side, plain_name
from anylayer.inspect.diff_details import Detail, Difference, details, without_same_weights
from anylayer.inspect.differences import Comparer
from anylayer.inspect.listing import flat_params, short
from anylayer.inspect.page import fill_page
from anylayer.inspect.tables import Column, table, wrap_lines
from anylayer.libraries.whole import write_whole
from anylayer.network import Network, Node, TensorType
from anylayer.numerics import difference_text

_COLUMNS = (
    Column("A", 10, "middle", worth=6),
    Column("B", 10, "middle", worth=6),
    Column("status", 6),
    Column("error", right=True),
    Column("note", 8, "wrap"),
)
_INDENT = "  "
_SHOWN = 5
"""The number of differences that the text shows."""
_WORDS = {"same": "agrees", "moved": "rearranges", **{k: k for k in ("differs", "folded", "not compared")}}


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


@dataclass(frozen=True, slots=True)
class OutputPair:
    """An output of A and of B, as each network computes it alone. `error` is relative to the largest value.

    `tells` is false where A's output is empty, constant or saturated. `alone` says that its last nodes were then
    compared on noise. The larger one of both errors is the `error`.
    """

    a: str
    b: str
    error: float
    ok: bool
    tells: bool
    layout: str
    shapes: tuple[str, str]
    alone: bool = False


@dataclass(slots=True)
class Diff:
    """The comparison of two networks.

    `inputs` maps inputs of A to those of B. `outputs` are the pairs of outputs. `rows` are the nodes side by
    side, `differences` the places where numbers part. `left` and `extra` are outputs of A and of B without a
    counterpart.
    """

    a: Network
    b: Network
    inputs: dict[str, str]
    outputs: list[OutputPair]
    rows: list[DiffRow]
    differences: list[Difference]
    left: list[str]
    extra: list[str]
    notes: list[str] = field(default_factory=list)

    @property
    def compared(self) -> bool:
        """Whether something was compared: there are outputs, and all of them tell something."""
        return bool(self.outputs) and all(o.tells for o in self.outputs)

    @property
    def same(self) -> bool:
        """Whether both networks compute the same, as far as it was compared on numbers that tell something."""
        fits = all(o.ok for o in self.outputs) and not self.differences and not self.left
        return fits and self.compared

    @property
    def first(self) -> DiffRow | None:
        """The row of the first difference."""
        return next((row for row in self.rows if row.first), None)

    @property
    def verdict(self) -> str:
        """One sentence that says the result."""
        wrong = [o for o in self.outputs if not o.ok]
        if self.differences:
            others = len(self.differences) - 1
            more = f", and in {plural(others, 'other place')}" if others else ""
            unequal = "; the outputs differ" if wrong else "; the outputs agree within the tolerance"
            row = self.first
            names = "one place" if row is None else " | ".join(_names(c) or "nothing" for c in (row.a, row.b))
            return f"they part at {names}{more}{unequal}"
        if any(o.alone for o in wrong):
            return f"the last nodes before output {some([repr(o.a) for o in wrong if o.alone])} differ on noise"
        if wrong:
            return (
                f"output {some([repr(o.a) for o in wrong])} differs, although each node computes the same from "
                "the same inputs: rounding that adds up, or a decision between almost equal values"
            )
        if self.left:
            return f"output {some(list(map(repr, self.left)))} of A has no counterpart in B"
        if not self.compared:
            return "nothing was compared: outputs are empty, constant or saturated for these inputs"
        return "they compute the same"

    def counts(self) -> dict[str, int]:
        """Return the number of rows by status."""
        numbers: dict[str, int] = {}
        for row in self.rows:
            numbers[row.status] = numbers.get(row.status, 0) + 1
        return numbers

    def __str__(self) -> str:
        return "\n".join(self.lines(shutil.get_terminal_size().columns))

    def lines(self, width: int | None, *, every: bool = False) -> list[str]:
        """Return the result as lines of text. every: show all nodes, not only those that differ."""
        lines = []
        for label, net in (("A", self.a), ("B", self.b)):
            lines += wrap_lines(f"{label}: {net.source} ({net.format}), {plural(len(net.nodes), 'node')}", width)
        if every:
            cells = [(_names(r.a), _names(r.b), _WORDS[r.status], _error(r.error), _note(r)) for r in self.rows]
            for part in table(_COLUMNS, cells, width):
                lines += part
        differing = [row for row in self.rows if row.status == "differs"]
        for row in differing if every else differing[:_SHOWN]:
            lines += ["", *self._difference(row, width)]
        if len(differing) > _SHOWN and not every:
            where = wording("rows", "--all, --json or -o")
            lines += [
                "",
                *wrap_lines(f"and {plural(len(differing) - _SHOWN, 'other difference')}: {where}", width),
            ]
        lines.append("")
        for o in self.outputs:
            layout = f", {o.layout}" if o.layout else ""
            how = (
                f"shape {o.shapes[0]} and {o.shapes[1]}"
                if math.isinf(o.error) and o.shapes[0] != o.shapes[1]
                else f"differs by {_error(o.error)} of its largest value"
            )
            name = f"'{o.a}'" if o.a == o.b else f"'{o.a}' | '{o.b}'"
            lines += wrap_lines(f"output {name}{layout}: {how}{'' if o.ok else ': too much'}", width)
        counts = self.counts()
        words = {"same": "agree", "differs": "differ", "folded": "folded", "moved": "only rearrange elements"}
        parts = [f"{counts[key]} {word}" for key, word in words.items() if key in counts]
        parts += [f"{counts['not compared']} not compared"] if "not compared" in counts else []
        lines += wrap_lines(f"nodes: {', '.join(parts)}", width)
        other = [row for row in self.rows if row.status == "same" and row.details]
        if other:
            text = some([_place(row) for row in other])
            lines += wrap_lines(
                f"note: other parameters or weights, but the same numbers for these inputs: {text}", width
            )
        for note in self.notes:
            lines += wrap_lines(f"note: {note}", width)
        return [*lines, *wrap_lines(f"{'same' if self.same else 'different'}: {self.verdict}", width)]

    def _difference(self, row: DiffRow, width: int | None) -> list[str]:
        head = f"{'first difference' if row.first else 'difference'}: {_place(row)}"
        lines = wrap_lines(head, width)
        room = None if width is None else width - len(_INDENT)
        if row.note:
            lines += [_INDENT + line for line in wrap_lines(row.note, room)]
        for what, a, b in row.details:
            text = f"{what}: {a} | {b}" if b else f"{what}: {a}"
            lines += [_INDENT + line for line in wrap_lines(text, room)]
        return lines

    def to_dict(self) -> dict[str, Any]:
        """Return the comparison as plain values, for JSON."""
        return {
            "same": self.same,
            "verdict": self.verdict,
            "a": _file(self.a),
            "b": _file(self.b),
            "inputs": self.inputs,
            "outputs": [{**asdict(o), "error": _finite(o.error)} for o in self.outputs],
            "rows": [{**asdict(row), "error": _finite(row.error)} for row in self.rows],
            "left": self.left,
            "extra": self.extra,
            "notes": self.notes,
        }

    def to_html(self) -> str:
        """Return the comparison as one page of HTML, which needs no other file and no network access."""
        title = f"{Path(self.a.source).name} and {Path(self.b.source).name}"
        return fill_page("diff", title, self.to_dict(), "\n".join(self.lines(None, every=True)))

    def save(self, path: str | Path) -> None:
        """Write the page of `to_html` as a file."""
        page = self.to_html().encode()
        write_whole(Path(path), lambda file: file.write(page))


def _file(net: Network) -> Mapping[str, Any]:
    return {"source": net.source, "name": Path(net.source).name, "format": net.format, "nodes": len(net.nodes)}


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _names(cell: Cell | None) -> str:
    return "" if cell is None else some(cell.names)


def _note(row: DiffRow) -> str:
    return row.note or row.how.removeprefix("name").removeprefix("values").removeprefix(", ")


def _error(value: float | None) -> str:
    return "" if value is None else "0" if value == 0 else f"{value:.1e}" if math.isfinite(value) else "not finite"


def _place(row: DiffRow) -> str:
    """Return the nodes of a row: "conv1 (Convolution) | Conv_0 (Conv)"."""
    cells = [
        ", ".join(f"{n} ({t})" for n, t in zip(c.names, c.types)) if c is not None else "nothing"
        for c in (row.a, row.b)
    ]
    return cells[0] if cells[0] == cells[1] else " | ".join(cells)


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
                    after.setdefault(last, []).append(self._differing(place[i]))
                last = max([last, *(k for d in self.c.differences if i in d.b_nodes for k in d.a_nodes)])
            elif i not in used:
                after.setdefault(last, []).append(self._alone(i, self.b, self.a))
        rows = after.get(-1, [])
        for k in range(len(self.a.nodes)):
            if k in differences:
                rows += map(self._differing, differences[k])
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

    def _differing(self, d: Difference) -> DiffRow:
        a = [self.a.tracings[k] for k in d.a_nodes]
        b = [self.b.tracings[i] for i in d.b_nodes]
        x, y = d.a_array, d.b_array
        if x.shape != y.shape:
            facts = [("shape", str(TensorType(x.shape, x.dtype)), str(TensorType(y.shape, y.dtype)))]
        elif np.array_equal(np.sort(x, axis=None), np.sort(y, axis=None)):
            facts = [("numbers", "the same, in another order", "")]
        else:
            facts = [("numbers", difference_text(d.error, d.scale), "")]
        facts += details(a, b) if d.details is None else d.details
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
