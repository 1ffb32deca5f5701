"""A report as one page of HTML, which needs no other file and no network access.

The page is made of files in the folder `template`: page.html, page.css and page.js. The data are embedded as
JSON, and the script puts them into the page as text only. A content security policy allows this script and this
style and nothing else, so that no name in a network's file can become code.
"""

from __future__ import annotations

import base64
import hashlib
import html
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from anylayer.inspect.listing import flat_params, own, short, to_html, where
from anylayer.network import TensorType, open_text

if TYPE_CHECKING:
    from anylayer.inspect.figures import Figures
    from anylayer.inspect.report import Named, NodeReport, Report


_PARAMS = 200
"""The largest number of params of a node that are listed."""


def to_page(report: Report) -> str:
    """Return the page of a report."""
    name = Path(report.source).name or "network"
    return fill_page("page", name, page_data(report), to_html(report), raw=True)


def fill_page(view: str, title: str, data: Mapping[str, Any], table: str, *, raw: bool = False) -> str:
    """Return a page: the template `view`.html with its script, the common script and style, and data as JSON.

    table: what readers without JavaScript see: text, or with `raw` HTML.
    """
    script = f"{_part('common.js')}\n{_part(f'{view}.js')}"
    style = _part("page.css") + (_part(f"{view}.css") if view != "page" else "")
    policy = f"style-src 'sha256-{_digest(style)}'; script-src 'sha256-{_digest(script)}'"
    filled = {
        "title": html.escape(title),
        "policy": f"default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; {policy}",
        "style": style,
        "script": script,
        "data": _embed(data),
        "table": table if raw else f"<pre>{html.escape(table)}</pre>",
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda found: filled[found[1]], _part(f"{view}.html"))


def to_frame(report: Report) -> str:
    """Return the page in a frame, for a notebook. The frame has no access to the notebook."""
    page = html.escape(to_page(report), quote=True)
    style = "width: 100%; height: 80vh; min-height: 480px; border: 1px solid #8884; border-radius: 8px"
    return f'<iframe sandbox="allow-scripts" srcdoc="{page}" title="anylayer report" style="{style}"></iframe>'


@cache
def _part(name: str) -> str:
    return (files("anylayer.inspect") / "template" / name).read_text("utf-8")


def _digest(text: str) -> str:
    """Return the hash by which a content security policy names a script or a style."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embed(data: Mapping[str, Any]) -> str:
    """Return JSON that no text inside can end: "<", ">" and "&" are escaped."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def page_data(report: Report) -> dict[str, Any]:
    """Return what the page shows, as plain values."""
    measured = report.measured
    shown = {id(n) for n in report.layers}
    rows = lanes([([v for v, _ in n.inputs], [v for v, _ in n.outputs]) for n in report.nodes], report.results)
    producers = {value: i for i, n in enumerate(report.nodes) for value, _ in n.outputs}
    nodes = [
        {
            "i": i,
            **_node(n),
            **asdict(row),
            "hidden": id(n) not in shown,
            "from": [producers.get(v, -1) for v, _ in n.inputs],
        }
        for i, (n, row) in enumerate(zip(report.nodes, rows))
    ]
    return {
        "source": report.source,
        "name": Path(report.source).name,
        "dialect": report.dialect or "",
        "weighted": report.weighted,
        "totals": report.totals,
        "inputs": [_end(report, name, kind, True) for name, kind in report.inputs],
        "outputs": [_end(report, name, kind, False) for name, kind in report.outputs],
        "nodes": nodes,
        "notes": list(dict.fromkeys(report.notes)),
        "measured": measured.to_dict() if measured is not None else None,
    }


def _node(n: NodeReport) -> dict[str, Any]:
    return {
        **n.plain_fields(),
        "short": short(n.params),
        "params": list(flat_params("", n.params))[:_PARAMS],
        "inputs": _types(n.inputs),
        "outputs": _types(n.outputs),
        "runs": where(n),
        "own": own(n),
        "figures": _figures(n.figures) if n.figures is not None else None,
    }


def _types(named: Named) -> list[list[str]]:
    return [[name, str(kind) if kind is not None else ""] for name, kind in named]


def _end(report: Report, name: str, kind: TensorType | None, is_input: bool) -> dict[str, str]:
    """Return an input or output of the network: its name, type and layout."""
    open_shape = report.open.get(name)
    text = str(kind) if kind is not None else open_text(open_shape) if open_shape else "shape not known"
    return {"name": name, "type": text, "layout": report.layouts.get(name, "") if is_input else ""}


def _figures(f: Figures) -> dict[str, Any]:
    """Return the figures of a node. A number that is not finite is None."""
    data = asdict(f)
    check = f.check
    if check is not None:
        data["check"] = {
            "relative": check.relative if math.isfinite(check.relative) else None,
            "error": check.error if math.isfinite(check.error) else None,
            "scale": check.scale,
            "ok": check.ok,
            "refused": check.refused,
            "note": check.note,
            "compared": not (check.note and check.ok),
        }
    return data


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
    for i, (inputs, results) in enumerate(nodes):
        above = sorted({producer[name] for name in inputs if name in producer})
        for p in above:
            last[p] = i
        sources.append(above)
        starts = any(name and name not in producer for name in inputs)
        rows.append(Row(0, starts=starts, ends=not public.isdisjoint(results)))
        producer.update(dict.fromkeys(results, i))
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
