"""Show a network in Netron, with the figures of each node."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import click

from anylayer.cli.command import (
    engine_option,
    make_command,
    network_options,
    read_net,
    say,
    shapes_of,
    threads_option,
)
from anylayer.cli.commands.convert import spinner
from anylayer.cli.inputs import feed
from anylayer.cli.signals import Terminated
from anylayer.cli.trials import trial_options
from anylayer.errors import InputError


@make_command("anylayer view deploy.prototxt weights.caffemodel -l layers.py")
@network_options
@engine_option()
@threads_option
@click.option("--no-run", is_flag=True, help="Measure nothing: only what is known without running the network.")
@click.option("--port", type=click.IntRange(1, 65535), metavar="N", help="The port of the viewer [a free one].")
@click.option("--no-browser", is_flag=True, help="Print the address, and open no browser.")
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the file for Netron, and show nothing.")
@trial_options
def command(**options: Any) -> None:
    """Open the ONNX form of a network in Netron. The metadata of each node are its layer, params, time,
    multiply-adds and error against NumPy.

    Only this machine can open Netron's page, and the page cannot report usage. Ctrl-C ends the command. It needs:
    pip install netron
    """
    if options["out"] is not None:
        _write(options, options["out"])
        say(f"wrote {options['out']}", options["quiet"])
        return
    try:
        from anylayer.libraries import netron
    except ImportError:
        raise InputError("the viewer needs Netron: pip install netron; or write the file: -o FILE.onnx") from None
    with TemporaryDirectory(prefix="anylayer-") as folder:
        path = Path(folder) / f"{Path(options['model']).stem}.onnx"
        _write(options, path)
        address = netron.serve(path, options["port"], browse=not options["no_browser"])
        try:
            say(f"{address} shows {options['model']}; Ctrl-C ends it")
            netron.wait()
        except KeyboardInterrupt as signal:
            if isinstance(signal, Terminated):
                raise
        finally:
            netron.stop()


def _write(options: dict[str, Any], path: Path) -> None:
    """Write the ONNX form of the network, with its figures, as `path`."""
    from anylayer.inspect.annotate import annotate

    net = read_net(options)
    shapes = shapes_of(net, options["shapes"])
    with spinner("measuring", options["quiet"]):
        arrays = feed(net, options["inputs"], shapes, options["seed"]) if options["inputs"] else None
        if options["random_weights"]:
            net.fill(options["seed"], shapes or None)
        if options["no_run"]:
            report = net.inspect(shapes or None)
        else:
            report = net.report(
                inputs=arrays, engine=options["engine"], threads=options["threads"], shapes=shapes or None
            )
        net.write(path, "onnx", shapes=shapes or None, verify=not options["no_run"])
        annotate(path, report)
