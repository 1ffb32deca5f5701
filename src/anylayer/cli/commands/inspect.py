"""anylayer inspect: the table of a network's nodes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    Command,
    network_options,
    read_net,
    shape_option,
    shapes_of,
    talk_options,
    terminal_width,
)

if TYPE_CHECKING:
    from anylayer.inspect.report import Report


@click.command(
    cls=Command,
    short_help="Show what a network is made of, and where each node runs.",
    epilog="\b\nExample:\n  anylayer inspect deploy.prototxt weights.caffemodel --shape data=1,3,300,300",
)
@network_options
@shape_option
@click.option("--edges", is_flag=True, help="Show what feeds what: inputs and outputs by name.")
@click.option("--all", "every", is_flag=True, help="Show the nodes that only hold or make constants, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
@talk_options
def command(
    shapes: Any, edges: bool, every: bool, as_json: bool, quiet: bool, debug: bool, **network: Any
) -> None:
    """Show a network's nodes: type, params, shapes, weights, multiply-adds, and where each runs.

    Works without weights, and with layers that nobody knows: their rows say so. On a terminal the table fits its
    width; into a file or a pipe it is written whole.
    """
    from anylayer.inspect.listing import ends, lines

    net = read_net(**network)
    report = net.inspect(shapes_of(net, shapes) or None)
    if as_json:
        from anylayer.cli.files import to_json

        click.echo(to_json(report.to_dict()))
        return
    width = terminal_width()
    for line, where in lines(report, width, report.nodes if every else None, edges=edges):
        click.secho(line, **_STYLE.get(where, {}))
    if not quiet:
        for line in ends(report, width):
            click.echo(line)
        _remedies(report, network["model"])


_STYLE: dict[str, dict[str, Any]] = {
    "host": {"fg": "yellow"},
    "unknown": {"fg": "red", "bold": True},
    "refused": {"fg": "red"},
    "unshaped": {"fg": "red"},
    "constant": {"dim": True},
}


def _remedies(report: Report, model: Path) -> None:
    """Say which commands tell more."""
    blank = next((n for n, t in report.inputs if t is None), None)
    if blank is not None:
        sizes = ",".join("?" if d is None else str(d) for d in report.open.get(blank, ())) or "N,C,H,W"
        click.echo(f"To know the shapes: anylayer inspect {model} --shape {blank}={sizes}")
    if report.totals["unknown"]:
        click.echo(f"To define the unknown layers: anylayer stub {model} -o layers.py")
