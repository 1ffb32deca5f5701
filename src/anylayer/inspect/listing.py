"""Format a report of a network's nodes as text of a given width, and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.errors import clean, plural
from anylayer.inspect.tables import Column, count, list_lines, natural_width, shorten, table, unbroken, wrap_lines
from anylayer.network import TensorType, open_text, size_text

if TYPE_CHECKING:
    from anylayer.inspect.report import NodeReport, Report

Line = tuple[str, str]
"""A line of text, and the `where` of the node that it shows; "" for other lines."""

_VALUE = 400
"""The largest number of characters of a param's value that are shown."""
_FULL = (
    Column("node"),
    Column("type"),
    Column("params"),
    Column("outputs"),
    Column("weights", right=True),
    Column("multiply-adds", right=True),
    Column("where"),
)
_NARROW = (
    Column("node", 8, "middle", worth=8),
    Column("type", 7, "middle", worth=4),
    Column("params", 7),
    Column("outputs"),
    Column("weights", right=True),
    Column("MACs", right=True),
    Column("where"),
)
_EDGES = (
    Column("node", 8, "middle"),
    Column("type", 7, "middle"),
    Column("inputs", 16, "wrap"),
    Column("outputs", 16, "wrap"),
    Column("where"),
)
_WHERE = {"host": "Python", "unshaped": "not traced"}


def lines(
    report: Report, width: int | None, nodes: Sequence[NodeReport] | None = None, *, edges: bool = False
) -> list[Line]:
    """Return the table of `nodes` (by default the report's `layers`) and the totals below it.

    edges: show inputs and outputs of each node in place of params and numbers. Where the table is wider than
    `width`, reasons are moved below it. Where that is not enough, shapes and numbers are abbreviated, names and
    params are cut, and a star marks the user's layers.
    """
    shown = report.layers if nodes is None else nodes
    if edges:
        table_lines = _edges(report, shown, width)
    else:
        table_lines = _table(shown, width)
    return [*table_lines, *((line, "") for line in wrap_lines(_totals(report, shown), width))]


def ends(report: Report, width: int | None) -> list[str]:
    """Return the lines with the network's inputs and outputs, its dialect and the notes."""
    sentences = []
    for label, named in (("inputs", report.inputs), ("outputs", report.outputs)):
        parts = []
        for name, kind in named:
            open_shape = report.open.get(name)
            shape = str(kind) if kind else open_text(open_shape) if open_shape else "(shape not known)"
            layout = report.layouts.get(name, "") if label == "inputs" else ""
            parts.append(f"{name} {shape} {layout}".rstrip())
        sentences += list_lines(label, parts, width)
    if report.dialect:
        sentences.append(f"dialect: {report.dialect}")
    for note in dict.fromkeys(report.notes):
        sentences += wrap_lines(f"note: {note}", width)
    return sentences


def _totals(report: Report, shown: Sequence[NodeReport]) -> str:
    t = report.totals
    untraced = t["refused"] + t["unshaped"]
    hidden = len(report.nodes) - len(shown)
    others = f" and {hidden} of constants" if hidden else ""
    qualifier = " known" if untraced or t["unknown"] else ""
    weights_note = "" if report.weighted else " (no weights file given)"
    weights = f"{count(t['weights'])} weight{'' if t['weights'] == 1 else 's'}"
    return (
        f"{plural(len(shown), 'node')}{others}, {weights}{weights_note}, "
        f"{count(t['macs'])}{qualifier} multiply-adds; in Python: {t['host']}; unknown: {t['unknown']}"
        + (f"; not traced: {untraced}" if untraced else "")
    )


# ---------------------------------------------------------------------- text


def _table(nodes: Sequence[NodeReport], width: int | None) -> list[Line]:
    rows = [(*_cells(n), where(n, reason=True)) for n in nodes]
    if width is None or natural_width(_FULL, rows) <= width:
        return _with_where(nodes, table(_FULL, rows, None))
    rows = [(*_cells(n), where(n)) for n in nodes]
    if natural_width(_FULL, rows) <= width:
        return [*_with_where(nodes, table(_FULL, rows, None)), *_reasons(nodes, width)]
    rows = [(*_narrow(n), _where_with_star(n)) for n in nodes]
    table_lines = _with_where(nodes, table(_NARROW, rows, width))
    return [*table_lines, *_files(nodes, width), *_reasons(nodes, width)]


def _with_where(nodes: Sequence[NodeReport], parts: Sequence[Sequence[str]]) -> list[Line]:
    head, *rows = parts
    return [(line, "") for line in head] + [(line, n.where) for n, row in zip(nodes, rows) for line in row]


def _files(nodes: Sequence[NodeReport], width: int | None) -> list[Line]:
    """Return the line that explains the star: the files that contain the user's layers."""
    files = dict.fromkeys(Path(n.origin).name for n in nodes if own(n))
    return [(line, "") for line in wrap_lines(f"* from {', '.join(files)}", width)] if files else []


def _edges(report: Report, nodes: Sequence[NodeReport], width: int | None) -> list[Line]:
    """Return the table of edges: each node with its inputs and the nodes that produce them."""
    producers = {value: n.name for n in report.nodes for value, _ in n.outputs}
    inputs, outputs = dict(report.inputs), dict(report.outputs)

    def source(value: str) -> str:
        producer = producers.get(value)
        if producer is None:
            return f"{value} (input)" if value in inputs else value
        return value if producer == value else f"{value} ({producer})"

    rows = []
    for n in nodes:
        results = [f"{v} {_size(t)}" + (" (output)" if v in outputs else "") for v, t in n.outputs]
        cells = (n.name, n.type, unbroken(source(v) for v, _ in n.inputs), unbroken(results), _where_with_star(n))
        rows.append(cells)
    return [*_with_where(nodes, table(_EDGES, rows, width)), *_files(nodes, width)]


def _cells(n: NodeReport) -> tuple[str, ...]:
    outputs = ", ".join(str(t) if t else "?" for _, t in n.outputs)
    numbers = [f"{v:,}" if v else "" for v in (n.weights, n.macs)]
    return (n.name, n.type, short(n.params), outputs, *numbers)


def _narrow(n: NodeReport) -> tuple[str, ...]:
    sizes = [_size(t) for _, t in n.outputs]
    outputs = ", ".join(
        sizes if len(sizes) < 2 or len(", ".join(sizes)) <= 20 else [sizes[0], f"+{len(sizes) - 1}"]
    )
    numbers = [count(v) if v else "" for v in (n.weights, n.macs)]
    shown = {str(size) for _, t in n.outputs if t for size in t.shape}
    params = sorted(
        short(n.params).split(" "), key=lambda p: p.partition("=")[2] in shown
    )  # params that the shape does not show come first
    return (n.name, n.type, " ".join(params), outputs, *numbers)


def _size(kind: TensorType | None) -> str:
    """Return "1x3x224x224", with the dtype in front where it is not float32."""
    if kind is None:
        return "?"
    sizes = "x".join(map(size_text, kind.shape)) or "scalar"
    return sizes if kind.dtype == np.float32 else f"{kind.dtype.name} {sizes}"


def _reasons(nodes: Sequence[NodeReport], width: int) -> list[Line]:
    """Return a line for each reason why nodes do not run on the engine; the report's notes have refused nodes."""
    groups: dict[tuple[str, str], list[NodeReport]] = {}
    for n in nodes:
        if n.reason and n.where != "refused":
            groups.setdefault((n.where, n.reason), []).append(n)
    lines = []
    for (how, reason), same in groups.items():
        more = f" and {plural(len(same) - 1, 'other')}" if len(same) > 1 else ""
        verb = {"host": "in Python", "unshaped": "not traced", "native": "native kernel"}.get(how, how)
        text = f"layer '{same[0].name}' ({same[0].type}){more}: {verb}: {reason}"
        lines += [(line, how) for line in wrap_lines(text, width)]
    return lines


def own(n: NodeReport) -> bool:
    return n.origin not in ("", "built-in")


def _where_with_star(n: NodeReport) -> str:
    return _WHERE.get(n.where, n.where) + ("*" if own(n) else "")


def where(n: NodeReport, *, reason: bool = False) -> str:
    """Return the cell on where a node runs, which file defines it, and why it does not run on the engine."""
    text = _WHERE.get(n.where, n.where) + (f", {Path(n.origin).name}" if own(n) else "")
    return clean(text + (f": {n.reason}" if reason and n.reason else ""))


_TRAINING = ("filler", "initializer", "regularizer", "constraint")
_HIDDEN = ("name", "trainable", "dtype")
_MAX_VALUES = 32
"""The largest number of values of a param that is shown."""


def short(params: Mapping[str, Any]) -> str:
    """Return params as text without the names of their messages: "num_output=64 kernel_size=3".

    Fields for training and fields that are not set are left out. An object is shown by the name of its class.
    """
    parts: list[str] = []
    for name, value in params.items():
        if (
            value is None
            or (isinstance(value, list) and not value)
            or name in _HIDDEN
            or name.startswith("_")
            or any(word in name for word in _TRAINING)
        ):
            continue
        if isinstance(value, Mapping):
            parts.append(f"{name}={value['class_name']}" if "class_name" in value else short(value))
        elif isinstance(value, list) and any(isinstance(v, Mapping) for v in value):
            parts.extend(short(v) for v in value if isinstance(v, Mapping))
        elif isinstance(value, np.ndarray):
            parts.append(f"{name}={TensorType(value.shape, value.dtype)}")
        else:
            values = value if isinstance(value, list) else [value]
            more = f",... ({len(values)} values)" if len(values) > _MAX_VALUES else ""
            parts.append(f"{name}={','.join(map(str, values[:_MAX_VALUES]))}{more}")
    return " ".join(p for p in parts if p)


def flat_params(prefix: str, value: Any) -> Iterator[list[str]]:
    """Yield the params as [dotted name, value]. An array is shown by its type."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from flat_params(f"{prefix}.{name}" if prefix else str(name), inner)
        return
    if hasattr(value, "dtype") and hasattr(value, "shape"):
        value = TensorType(value.shape, value.dtype)
    yield [prefix, shorten(str(value), _VALUE)]


# ---------------------------------------------------------------------- HTML

_COLOURS = {"unknown": "#c00", "refused": "#c00", "unshaped": "#c00", "host": "#a60", "constant": "#888"}


def to_html(report: Report) -> str:
    """Return the table as HTML, with totals, inputs and outputs below it. Unknown layers are red."""
    nodes = report.layers
    head = "".join(f"<th>{c.head}</th>" for c in _FULL)
    body = "".join(_html_row(n) for n in nodes)
    below = [_totals(report, nodes), *ends(report, None)]
    notes = "".join(f"<p>{html.escape(line)}</p>" for line in below)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{notes}"


def _html_row(n: NodeReport) -> str:
    colour = _COLOURS.get(n.where, "")
    style = f' style="color: {colour}"' if colour else ""
    cells = (*_cells(n), where(n, reason=True))
    marked = [f"<b>{html.escape(c)}</b>" if n.where == "unknown" else html.escape(c) for c in cells]
    return f"<tr{style}>" + "".join(f"<td>{c}</td>" for c in marked) + "</tr>"
