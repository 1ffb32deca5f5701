"""Show what each node of a network costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from anylayer.cli.command import (
    echo,
    engine_option,
    make_command,
    network_options,
    say,
    seconds_option,
    terminal_width,
    threads_option,
)
from anylayer.cli.files import to_json, write_text
from anylayer.cli.free import assume_free_option
from anylayer.cli.trials import trial, trial_options
from anylayer.inspect.profile_listing import lines


@make_command("anylayer profile net.prototxt --random-weights -e openvino --trace t.json")
@network_options
@engine_option()
@threads_option
@seconds_option(1.0, "How long the network runs with counters, and how long without")
@assume_free_option
@click.option(
    "--trace",
    type=click.Path(path_type=Path),
    metavar="FILE.json",
    help="Write one run as a trace for chrome://tracing or Perfetto.",
)
@trial_options
def command(
    engine: str,
    threads: int | None,
    seconds: float,
    trace: Path | None,
    as_json: bool,
    quiet: bool,
    **options: Any,
) -> None:
    """Run a network, and show the time of each node, its multiply-adds and bytes, and what limits it.

    The times are the engine's own counters, where it has them. Layers that the engine computes together are one
    row. Multiply-adds and bytes per second are compared with the peaks of the machine, which are measured first.
    """
    from anylayer.inspect.profile import profile

    net, arrays = trial(options)
    costs = profile(net, arrays, engine, threads, seconds)
    if as_json:
        echo(to_json(costs.to_dict()))
    else:
        for line in lines(costs, terminal_width()):
            echo(line)
    if trace is not None:
        write_text(trace, to_json(costs.trace()) + "\n")
        say(f"wrote {trace}", quiet)
