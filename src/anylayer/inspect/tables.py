"""Format tables of plain text to a width. Numbers are never cut; text is shortened or wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from anylayer.errors import BLANK, clean, plural

_GAP = "  "


@dataclass(frozen=True)
class Column:
    """A column: its heading, and how it is narrowed where the table is too wide.

    `min_width` is the width that it is narrowed to at most; None keeps its full width. `cut` says how a cell is
    shortened: "end" and "middle" put an ellipsis there, "wrap" continues in the next line. `right` aligns cells to
    the right. `worth` is the number of characters by which it stays wider than other columns while they are
    narrowed.
    """

    head: str
    min_width: int | None = None
    cut: str = "end"
    right: bool = False
    worth: int = 0


def table(columns: Sequence[Column], rows: Sequence[Sequence[str]], width: int | None) -> list[list[str]]:
    """Return the lines of the heading, with the rule below it, followed by the lines of each row.

    The table is at most `width` characters wide, unless columns that keep their width need more. Cells are cleaned
    of characters that cannot be printed.
    """
    rows = [[clean(cell) for cell in row] for row in rows]
    natural = [max([len(c.head), *(len(row[i]) for row in rows)]) for i, c in enumerate(columns)]
    widths = fit_widths(natural, columns, width)
    head = _lines(columns, [c.head for c in columns], widths)
    rule = "\u2500" * (sum(widths) + len(_GAP) * (len(widths) - 1))
    return [[*head, rule], *(_lines(columns, row, widths) for row in rows)]


def natural_width(columns: Sequence[Column], rows: Sequence[Sequence[str]]) -> int:
    """Return the width of a table in which nothing is cut."""
    widths = [max([len(c.head), *(len(row[i]) for row in rows)]) for i, c in enumerate(columns)]
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def fit_widths(natural: Sequence[int], columns: Sequence[Column], width: int | None) -> list[int]:
    """Return column widths that fit into `width`. The widest column that may be narrowed is narrowed first."""
    if width is None:
        return list(natural)
    min_widths = [c.min_width for c in columns]
    widths = [n if low is None else min(n, max(width, low)) for n, low in zip(natural, min_widths)]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    while excess > 0:
        narrowable = [i for i, low in enumerate(min_widths) if low is not None and widths[i] > low]
        if not narrowable:
            break
        widths[max(narrowable, key=lambda i: widths[i] - columns[i].worth)] -= 1
        excess -= 1
    return widths


def _lines(columns: Sequence[Column], cells: Sequence[str], widths: Sequence[int]) -> list[str]:
    """Return the lines of one row."""
    parts = [_cell(cell, width, column.cut) for column, cell, width in zip(columns, cells, widths)]
    lines = []
    for i in range(max(map(len, parts))):
        texts = [part[i] if i < len(part) else "" for part in parts]
        aligned = [t.rjust(w) if c.right else t.ljust(w) for t, w, c in zip(texts, widths, columns)]
        lines.append(_GAP.join(aligned).rstrip())
    return lines


def _cell(text: str, width: int, cut: str) -> list[str]:
    if cut == "wrap":
        parts = [part if len(part) < width else part.replace(BLANK, " ") for part in text.split(", ")]
        text = ", ".join(parts)
        return [line.replace(BLANK, " ") for line in textwrap.wrap(text, width, break_on_hyphens=False)] or [""]
    return [shorten(text, width, middle=cut == "middle")]


def shorten(text: str, width: int, *, middle: bool = False) -> str:
    """Return the text, shortened to `width` characters with an ellipsis.

    >>> shorten("num_output=64 kernel_size=3", 14), shorten("new-score-weighting", 12, middle=True)
    ('num_output=64…', 'new-sc…hting')
    """
    if len(text) <= width:
        return text
    tail = (width - 1) // 2 if middle else 0
    return text[: width - 1 - tail].rstrip() + "…" + (text[-tail:] if tail else "")


def unbroken(parts: Iterable[str]) -> str:
    """Return "a, b, c" for a cell that is wrapped only between its parts."""
    return ", ".join(part.replace(" ", BLANK) for part in parts)


def list_lines(label: str, parts: Sequence[str], width: int | None) -> list[str]:
    """Return "label: a, b, c" as one line, or one part per line where that exceeds `width`. Parts are cleaned."""
    parts = [clean(part) for part in parts]
    line = f"{label}: {', '.join(parts) or 'none'}"
    if width is None or len(line) <= width or len(parts) < 2:
        return [line]
    return [f"{label}:", *(f"  {part}" for part in parts)]


def wrap_lines(text: str, width: int | None) -> list[str]:
    """Return a cleaned sentence in lines of at most `width` characters, the later ones indented."""
    text = clean(text)
    if width is None or len(text) <= width:
        return [text]
    return textwrap.wrap(text, width, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)


def duration(seconds: float) -> str:
    """Return a time with three digits and its unit: "405 ms", "1.63 s"."""
    if seconds < 0.9995:  # which 1000 ms would be rounded to
        return f"{seconds * 1e3:.3g} ms"
    return f"{seconds:.3g} s" if seconds < 999.5 else f"{seconds:.0f} s"


def count(value: int) -> str:
    """Return a number with three digits and a unit: "1.23 M" for 1234567."""
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return str(value)


def parts_text(parts: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return a sentence that says which engine runs which layers, from (engine, its layers) in computing order."""
    texts = [f"{engine} {plural(len(names), 'layer')} up to '{names[-1]}'" for engine, names in parts]
    return ", ".join(texts).replace(" ", " runs ", 1)
