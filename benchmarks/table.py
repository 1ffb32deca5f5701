"""Tables of text: aligned, as Markdown, or drawn by rich."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Table:
    """A title, the names of the columns, rows of text, and lines below. The first `left` columns hold words, the
    others numbers."""

    title: str
    heads: Sequence[str]
    rows: list[Sequence[str]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    left: int = 1

    def text(self) -> str:
        """Aligned by spaces."""
        lines = [list(self.heads), *map(list, self.rows)]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.heads))]
        shown = [self.title]
        for line in lines:
            cells = [c.ljust(w) if i < self.left else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))]
            shown.append("  ".join(cells).rstrip())
        return "\n".join([*shown, *(f"  {note}" for note in self.notes)]) + "\n"

    def markdown(self) -> str:
        """With the title as a heading of the second level."""
        bar = [":--" if i < self.left else "--:" for i in range(len(self.heads))]
        lines = [self.heads, bar, *([cell.replace("|", "\\|") for cell in row] for row in self.rows)]
        body = "\n".join("| " + " | ".join(line) + " |" for line in lines)
        notes = "".join(f"- {note}\n" for note in self.notes)
        return f"## {self.title}\n\n{body}\n" + (f"\n{notes}" if notes else "")

    def rich(self) -> Any:
        """As rich draws it; print the notes below."""
        from rich.markup import escape
        from rich.table import Table as Drawn

        drawn = Drawn(title=self.title, title_justify="left")
        for i, head in enumerate(self.heads):
            drawn.add_column(escape(head), justify="left" if i < self.left else "right", no_wrap=True)
        for row in self.rows:
            drawn.add_row(*map(escape, row))
        return drawn
