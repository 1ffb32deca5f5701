"""Write a layers file for the unknown layers of a network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from anylayer.cli.command import (
    Command,
    echo,
    make_command,
    network_options,
    read_net,
    say,
    shape_option,
    shapes_of,
)
from anylayer.cli.files import write_text
from anylayer.cli.stubs import stub_file
from anylayer.errors import InputError, need, need_one_of, plural


@make_command("anylayer stub deploy.prototxt weights.caffemodel -o layers.py", Command)
@network_options
@click.option("-o", "--out", type=click.Path(path_type=Path), help="The file to write [stdout].")
@click.option("--force", is_flag=True, help="Overwrite the file.")
@click.option(
    "--type", "types", multiple=True, metavar="TYPE", help="Write a class for this type, even if it is known."
)
@shape_option
def command(out: Path | None, force: bool, types: tuple[str, ...], quiet: bool, **options: Any) -> None:
    """Write a Python file with a class and a test for each unknown layer type.

    The same is done for each layer that is a program inside the file (Keras' Lambda). A class lists the layer's
    params with their values, the shapes of its inputs, and the consumers of its outputs. Only `forward` is
    missing.
    """
    net = read_net(options)
    if out is not None:
        need(force or not out.exists(), f"{out} exists. --force overwrites it", InputError)
    names = {id(n): n.name for n in net.unknown if net.definitions[n.type]}  # layers that are programs in the file
    existing = {n.type for n in net.network.nodes} | set(names.values())
    for type_ in types:
        need_one_of(type_, existing, f"{options['model']}: there is no layer of type '{type_}'")
    nodes = [n for n in net.network.nodes if {n.type, names.get(id(n))} & set(types)] if types else net.unknown
    stub_types = list(dict.fromkeys(names.get(id(n), n.type) for n in nodes))
    report = net.inspect(shapes_of(net, options["shapes"]) or None)
    if not stub_types:
        say(f"{options['model']}: every layer type is known; nothing to write", quiet)
        for row in report.nodes:
            if row.where == "refused":
                say(f"layer '{row.name}' is refused; --type {row.type} writes a class for it", quiet)
        return
    inside = any(node.blobs for node in net.network.nodes)
    weights = options["weights"] or ("" if inside else "WEIGHTS")
    layers = [word for file in (*options["layers"], out or "layers.py") for word in ("-l", file)]
    files = " ".join(str(f) for f in (options["model"], weights, *layers) if f)
    text = stub_file(net.network, report.nodes, stub_types, f"anylayer run {files} -i INPUT", set(names.values()))
    if out is None:
        echo(text, nl=False)
        return
    write_text(out, text)
    say(f"wrote {out}: {plural(len(stub_types), 'layer type')} ({', '.join(stub_types)})", quiet)
