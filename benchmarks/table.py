"""Tables as aligned text, as Markdown, or drawn by rich."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Table:
    """A table: a title, the names of the columns, rows of text, and notes. The first `left` columns have words,
    the others numbers.
    """

    title: str
    heads: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left: int = 1

    def text(self) -> str:
        """Return the table as text, aligned by spaces."""
        lines = [list(self.heads), *map(list, self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.heads))]
        shown = [self.title]
        for line in lines:
            cells = [c.ljust(w) if i < self.left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))]
            shown.append("  ".join(cells).rstrip())
        return "\n".join([*shown, *(f"  {note}" for note in self.notes)]) + "\n"

    def markdown(self) -> str:
        """Return the table in Markdown, with the title as a second-level heading."""
        bar = [":--" if i < self.left else "--:" for i in range(len(self.heads))]
        lines = [self.heads, bar, *([cell.replace("|", "\\|") for cell in row] for row in self.rows)]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        notes = "".join(f"- {note}\n" for note in self.notes)
        return f"## {self.title}\n\n{body}\n" + (f"\n{notes}" if notes else "")

    def rich(self) -> Any:
        """Return the table for rich, and print the notes below it."""
        from rich.markup import escape
        from rich.table import Table as Drawn

        drawn = Drawn(title=self.title, title_justify="left")
        for i, head in enumerate(self.heads):
            drawn.add_column(escape(head), justify="left" if i < self.left else "right", no_wrap=True)
        for row in self.rows:
            drawn.add_row(*map(escape, row))
        return drawn
