"""Show the nodes of a network and where each of them runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    Command,
    echo,
    json_option,
    make_command,
    network_options,
    open_shape_option,
    read_net,
    shapes_of,
    terminal_width,
)
from anylayer.cli.files import to_json
from anylayer.inspect.listing import ends, lines
from anylayer.network import ChecksSizes, shapes_wording

if TYPE_CHECKING:
    from anylayer.inspect.report import Report


@make_command("anylayer inspect deploy.prototxt weights.caffemodel --shape data=1,3,300,300", Command)
@network_options
@open_shape_option
@click.option("--edges", is_flag=True, help="Show the inputs and outputs of each node by name.")
@click.option("--all", "every", is_flag=True, help="Also show nodes that only hold or compute constants.")
@click.option("--why", "node", metavar="NODE", help="Show which rules replace NODE, and why others do not.")
@json_option
def command(edges: bool, every: bool, node: str | None, as_json: bool, quiet: bool, **options: Any) -> None:
    """Show the nodes of a network: type, params, shapes, weights, multiply-adds, and where each node runs.

    Neither weights nor a class for each layer are needed; rows of unknown layers are marked. On a terminal the
    table is cut to its width; in a file or pipe it is complete.
    """
    net = read_net(options)
    shapes = shapes_of(net, options["shapes"]) or None
    if node is not None:
        from anylayer.inspect.why import why

        text = [*why(net.fill(), node, shapes=shapes)]
        echo(to_json({"why": text}) if as_json else "\n".join(text))
        return
    report = net.inspect(shapes)
    if as_json:
        echo(to_json(report.to_dict()))
        return
    width = terminal_width()
    for line, where in lines(report, width, report.nodes if every else None, edges=edges):
        echo(line, **_STYLE.get(where, {}))
    if not quiet:
        for line in ends(report, width):
            echo(line)
        _remedies(report, " ".join(str(options[k]) for k in ("model", "weights") if options[k]), net.network.sizes)


_STYLE: dict[str, dict[str, Any]] = {
    "host": {"fg": "yellow"},
    "unknown": {"fg": "red", "bold": True},
    "refused": {"fg": "red"},
    "unshaped": {"fg": "red"},
    "constant": {"dim": True},
}


def _remedies(report: Report, files: str, sizes: ChecksSizes | None) -> None:
    """Print the commands that give missing shapes and define unknown layers."""
    unshaped = {name: report.open.get(name) for name, t in report.inputs if t is None}
    if unshaped:
        echo(f"To know the shapes: anylayer inspect {files} {shapes_wording(unshaped, sizes)}")
        echo("A size that stays open may have a name there, as for convert: N, H, 32*h")
    if report.totals["unknown"]:
        echo(f"To define the unknown layers: anylayer stub {files} -o layers.py")
