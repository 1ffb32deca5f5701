"""anylayer inspect: the table of a network's nodes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    Command,
    count,
    network_options,
    plural,
    read_net,
    shape_option,
    shapes_of,
    show,
    table,
    talk_options,
)

if TYPE_CHECKING:
    from anylayer.engines.report import NodeReport, Report
    from anylayer.network import Network


@click.command(
    cls=Command,
    short_help="Show what a network is made of, and where each node runs.",
    epilog="\b\nExample:\n  anylayer inspect deploy.prototxt weights.caffemodel --shape data=1,3,300,300",
)
@network_options
@shape_option
@click.option("--all", "every", is_flag=True, help="The nodes that only hold or make constants, too.")
@click.option("--json", "as_json", is_flag=True, help="JSON on stdout.")
@talk_options
def command(shapes: Any, every: bool, as_json: bool, quiet: bool, debug: bool, **network: Any) -> None:
    """Show a network's nodes: type, params, shapes, weights, multiply-adds, and where each runs.

    Works without weights, and with layers that nobody knows: their rows say so.
    """
    net = read_net(**network)
    report = net.inspect(shapes_of(net, shapes) or None)
    if as_json:
        from anylayer.cli.files import to_json

        click.echo(to_json(report.to_dict()))
        return
    weights = bool(network["weights"]) or any(node.blobs for node in net.network.nodes)
    _show(report, report.nodes if every else report.layers, weights)
    if not quiet:
        _notes(report, network["model"], net.network)


def _show(report: Report, nodes: Sequence[NodeReport], weights: bool) -> None:
    columns = ("node", "type", "params", "outputs", "weights", "multiply-adds", "where")
    made = table(None, *columns, right=_NUMBERS, wrap=("params", "where"))
    style = {"host": "yellow", "unknown": "bold red", "refused": "red", "unshaped": "red", "constant": "dim"}
    for row, cells in zip(nodes, report.rows(nodes)):
        made.add_row(*map(_text, cells[:6]), _where(row), style=style.get(row.where))
    show(made)
    t = report.totals
    untraced = t["refused"] + t["unshaped"]
    rest = len(report.nodes) - len(nodes)
    others = f" and {rest} of constants" if rest else ""
    unsure = " known" if untraced or t["unknown"] else ""
    given = "" if weights else " (no weights file given)"
    click.echo(
        f"{plural(len(nodes), 'node')}{others}, {count(t['weights'])} weights{given}, "
        f"{count(t['macs'])}{unsure} multiply-adds; in Python: {t['host']}; unknown: {t['unknown']}"
        + (f"; not traced: {untraced}" if untraced else "")
    )


_NUMBERS = ("weights", "multiply-adds")


def _text(cell: str) -> Any:
    from rich.text import Text

    return Text("".join(c if c.isprintable() else "?" for c in cell))


def _where(row: NodeReport) -> Any:
    names = {"host": "Python", "refused": "refused", "unshaped": "not traced"}
    where = names.get(row.where, row.where)
    if row.origin not in ("", "built-in"):
        where += f", {Path(row.origin).name}"
    return _text(where + (f": {row.reason}" if row.reason else ""))


def _notes(report: Report, model: Path, network: Network) -> None:
    from anylayer.network import open_text

    known = {n: open_text(shape) for n, shape in network.open.items()}
    for name, kind in (("inputs", report.inputs), ("outputs", report.outputs)):
        parts = [f"{n} {t or known.get(n, '(shape not known)')}" for n, t in kind]
        if name == "inputs":
            laid = [network.layouts.get(n, "") for n, _ in kind]
            parts = [f"{part} {layout}".rstrip() for part, layout in zip(parts, laid)]
        click.echo(f"{name}: {', '.join(parts) or 'none'}")
    blank = next((n for n, t in report.inputs if t is None), None)
    if blank is not None:
        sizes = ",".join("?" if d is None else str(d) for d in network.open.get(blank, ())) or "N,C,H,W"
        click.echo(f"To know the shapes: anylayer inspect {model} --shape {blank}={sizes}")
    if report.dialect:
        click.echo(f"dialect: {report.dialect}")
    for note in dict.fromkeys(report.notes):
        click.echo(f"note: {note}")
    if report.totals["unknown"]:
        click.echo(f"To define the unknown layers: anylayer stub {model} -o layers.py")
