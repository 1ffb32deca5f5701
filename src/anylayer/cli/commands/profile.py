"""anylayer profile: show what each node of a network costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from anylayer.cli.command import (
    Shapes,
    TakesInputs,
    engine_option,
    input_option,
    json_option,
    network_options,
    random_weights_option,
    read_net,
    say,
    seed_option,
    shape_option,
    shapes_of,
    talk_options,
    terminal_width,
    threads_option,
)
from anylayer.cli.files import to_json, write_text
from anylayer.cli.free import Assumed, assume_free_option, assumed


@click.command(
    cls=TakesInputs,
    short_help="Show what each node of a network costs.",
    epilog="\b\nExample:\n  anylayer profile deploy.prototxt --random-weights -e openvino --trace trace.json",
)
@network_options
@engine_option()
@threads_option
@click.option(
    "--seconds",
    type=click.FloatRange(0.01),
    metavar="S",
    default=1.0,
    help="How long the network runs with counters, and how long without, in seconds [1].",
)
@assume_free_option
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="Write one run as a trace for chrome://tracing or Perfetto.",
)
@input_option("an image, .npy or .npz; other inputs are seeded noise")
@seed_option
@random_weights_option
@shape_option
@json_option
@talk_options
def command(
    engine: str,
    threads: int | None,
    seconds: float,
    assume_free: Assumed,
    trace: Path | None,
    inputs: tuple[str, ...],
    seed: int,
    random_weights: bool,
    shapes: Shapes,
    as_json: bool,
    quiet: bool,
    debug: bool,
    **network: Any,
) -> None:
    """Run a network, and show the time of each node, its multiply-adds and bytes, and what limits it.

    The times are the engine's own counters, where it has them. Layers that the engine computes together are one
    row. Multiply-adds and bytes per second are compared with the peaks of the machine, which are measured first.
    """
    from anylayer.cli.inputs import feed
    from anylayer.inspect.profile import profile
    from anylayer.inspect.profile_listing import lines

    net = assumed(read_net(**network), assume_free)
    arrays = feed(net, inputs, shapes_of(net, shapes), seed)
    if random_weights:
        net.fill(seed, {name: array.shape for name, array in arrays.items()})
    found = profile(net, arrays, engine, threads, seconds)
    if as_json:
        click.echo(to_json(found.to_dict()))
    else:
        for line in lines(found, terminal_width()):
            click.echo(line)
    if trace is not None:
        write_text(trace, to_json(found.trace()) + "\n")
        say(f"wrote {trace}", quiet)
