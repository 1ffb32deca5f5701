"""anylayer stub: a layers file to fill, for the layers nobody knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from anylayer.cli.command import (
    Command,
    network_options,
    read_net,
    say,
    shape_option,
    shapes_of,
    talk_options,
)
from anylayer.inspect.tables import plural


@click.command(
    cls=Command,
    short_help="Write a layers file for the unknown layers of a network.",
    epilog="\b\nExample:\n  anylayer stub deploy.prototxt weights.caffemodel -o layers.py",
)
@network_options
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The file to write [stdout].")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option("--type", "types", multiple=True, metavar="TYPE", help="Write this type; it may be a known one.")
@shape_option
@talk_options
def command(
    out: Path | None,
    force: bool,
    types: tuple[str, ...],
    shapes: Any,
    quiet: bool,
    debug: bool,
    **network: Any,
) -> None:
    """Write a Python file with a class for each layer type nobody knows, and for each layer that is a program
    inside the file (Keras' Lambda): its params with their values, the shapes it gets, who reads what it gives,
    and a test. What is left to write is `forward`.
    """
    from anylayer.cli.files import write_text
    from anylayer.cli.stubs import stub_file
    from anylayer.errors import InputError, nearest, need

    net = read_net(**network)
    if out is not None:
        need(force or not out.exists(), f"{out} exists. --force overwrites it", InputError)
    names = {id(n): n.name for n in net.unknown if net.definitions[n.type]}  # programs inside the file
    there = {n.type for n in net.network.nodes} | set(names.values())
    for type_ in types:
        missing = f"{network['model']}: there is no layer of type '{type_}'{nearest(type_, there)}"
        need(type_ in there, missing, InputError)
    nodes = [n for n in net.network.nodes if {n.type, names.get(id(n))} & set(types)] if types else net.unknown
    wanted = list(dict.fromkeys(names.get(id(n), n.type) for n in nodes))
    report = net.inspect(shapes_of(net, shapes) or None)
    if not wanted:
        say(f"{network['model']}: every layer type is known, there is nothing to write", quiet)
        for row in report.nodes:
            if row.where == "refused":
                say(f"layer '{row.name}' is refused; for a class of your own: --type {row.type}", quiet)
        return
    inside = any(node.blobs for node in net.network.nodes)
    weights = network["weights"] or ("" if inside else "WEIGHTS")
    files = " ".join(str(f) for f in (network["model"], weights, "-l", out or "layers.py") if f)
    text = stub_file(net.network, report.nodes, wanted, f"anylayer run {files} -i INPUT", set(names.values()))
    if out is None:
        click.echo(text, nl=False)
        return
    write_text(out, text)
    say(f"wrote {out}: {plural(len(wanted), 'layer type')} ({', '.join(wanted)})", quiet)
