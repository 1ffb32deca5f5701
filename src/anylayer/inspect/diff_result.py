"""The result of a comparison of two networks, as text, JSON and a page in two columns."""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from anylayer.errors import plural, some, wording
from anylayer.inspect.diff_rows import Cell, DiffRow
from anylayer.inspect.differences import Difference
from anylayer.inspect.page import fill_page
from anylayer.inspect.tables import Column, table, wrap_lines
from anylayer.libraries.whole import write_whole
from anylayer.network import Network

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
