"""Write a page that shows what a network does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    echo,
    engine_option,
    make_command,
    network_options,
    read_net,
    say,
    seconds_option,
    shapes_of,
    threads_option,
)
from anylayer.cli.files import to_json
from anylayer.cli.image_options import image_options, preprocessing_of
from anylayer.cli.inputs import feed
from anylayer.cli.progress import stages
from anylayer.cli.trials import trial_options

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.inspect.report import Report
    from anylayer.network import Array


@make_command("anylayer report deploy.prototxt weights.caffemodel -i a.jpg -o report.html")
@network_options
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The HTML file to write.")
@image_options
@engine_option()
@threads_option
@seconds_option(0.5, "How long the network is measured with counters, and how long without")
@click.option(
    "--blob", "blobs", multiple=True, metavar="NAME", help="Draw this feature map [the last one of each size]."
)
@click.option("--no-verify", is_flag=True, help="Do not compare the nodes with NumPy.")
@click.option(
    "--write",
    "written",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also convert the network, and show what that changed.",
)
@trial_options
def command(**options: Any) -> None:
    """Write one HTML file with the graph, the time and error of each node, pictures, and the code of your layers.

    The file needs no other file and no network access. A network that does not run, because a layer has no
    definition or the weights are missing, gets a page too, which says so.
    """
    net = read_net(options)
    shapes = shapes_of(net, options["shapes"])
    images: dict[str, Array] = {}
    arrays = None  # seeded noise
    if options["inputs"]:
        arrays = feed(net, options["inputs"], shapes, options["seed"], preprocessing_of(options), images)
    if options["random_weights"]:
        known_shapes = shapes if arrays is None else {name: array.shape for name, array in arrays.items()}
        net.fill(options["seed"], known_shapes)
    report = _measure(net, options, shapes, arrays, images)
    report.save(options["out"])
    if options["as_json"]:
        echo(to_json(report.to_dict()))
    for gap in report.measured.gaps if report.measured is not None else ():
        say(f"note: {gap}", options["quiet"])
    say(f"wrote {options['out']}", options["quiet"])


def _measure(
    net: Net,
    options: dict[str, Any],
    shapes: dict[str, tuple[Any, ...]],
    arrays: dict[str, Array] | None,
    images: dict[str, Array],
) -> Report:
    from anylayer.inspect.full import full_report

    with stages(options["quiet"]) as stage:
        conversion = None
        if options["written"] is not None:
            stage(f"writing {options['written']}, and comparing it")
            conversion = net.write(options["written"], shapes=shapes or None)
        return full_report(
            net,
            arrays,
            engine=options["engine"],
            threads=options["threads"],
            shapes=shapes or None,
            seconds=options["seconds"],
            compare=not options["no_verify"],
            blobs=options["blobs"] or None,
            images=images,
            conversion=conversion,
            seed=options["seed"],
            progress=stage,
        )
