"""Run a network on images, arrays or a folder of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from anylayer import cli
from anylayer.cli.command import (
    F,
    apply,
    engine_option,
    input_option,
    json_option,
    make_command,
    network_options,
    random_weights_option,
    ray_option,
    read_net,
    shape_option,
    shapes_of,
    threads_option,
)
from anylayer.cli.image_options import image_options, preprocessing_of
from anylayer.cli.inputs import Loader
from anylayer.cli.items import Item, items_of, moving_input
from anylayer.cli.presenter import Presenter
from anylayer.cli.progress import progress
from anylayer.cli.results import ShowOptions, read_labels
from anylayer.cli.running import Runner
from anylayer.cli.targets import OutOption
from anylayer.compile.inputs import input_types
from anylayer.errors import InputError, need, some


def result_options(function: F) -> F:
    """Add the options that say what is shown and written."""
    return apply(
        function,
        [
            click.option(
                "--blob", "blobs", multiple=True, metavar="NAME", help="Show this blob instead of the outputs."
            ),
            click.option(
                "-o",
                "--out",
                "outs",
                multiple=True,
                metavar="PATH",
                help="An image, video, .npy, .npz, .json or folder. {name}: the input's file, {blob}: the output.",
            ),
            click.option(
                "--show",
                type=click.Choice(["auto", "top", "detections", "map", "classes", "picture", "tiles", "values"]),
                default="auto",
                metavar="HOW",
                help="auto, top, detections, map, classes, picture, tiles or values [auto: by the shape].",
            ),
            click.option(
                "--top", type=click.IntRange(1), default=5, metavar="K", help="The number of classes to show [5]."
            ),
            click.option(
                "--labels", type=click.Path(path_type=Path), help="The names of the classes, one per line."
            ),
            click.option("--threshold", type=float, default=0.5, help="The lowest score of a detection [0.5]."),
            json_option,
        ],
    )


@make_command("anylayer run net.prototxt net.caffemodel -l layers.py -i a.jpg -o edges.png")
@network_options
@input_option("an image, .npy, .npz, folder, values [1, 2], video or camera number")
@image_options
@result_options
@engine_option()
@threads_option
@click.option("--batch", type=click.IntRange(1), metavar="N", help="Images per run [the file's].")
@click.option("--frames", type=click.IntRange(1), metavar="N", help="Stop after N frames of a video.")
@click.option("--fps", type=click.FloatRange(0.01, 1000), metavar="R", help="Frames per second [input's].")
@random_weights_option
@shape_option
@ray_option(is_flag_too=True)
def command(**options: Any) -> None:
    """Run a network and show its classes, detections, or a summary of maps.

    Images are preprocessed as the file states, or like OpenCV's blobFromImage. Results go to stdout, all else to
    stderr.
    """
    net = read_net(options)
    labels = read_labels(options["labels"]) if options["labels"] else ()
    shapes = shapes_of(net, options["shapes"])
    types = input_types(net.network, shapes)
    if types and not options["inputs"]:
        raise click.UsageError(f"Missing option '-i' / '--input': the network has inputs {some([*types])}.")
    loader = Loader(net, types, preprocessing_of(options), shapes)
    channels_last = any(map(loader.channels_last, types))
    show_options = ShowOptions(
        options["show"], options["top"], options["threshold"], labels, channels_last, net.network.labels
    )
    targets = [OutOption(out) for out in options["outs"]]
    runner = Runner(net, loader, options["engine"], options["threads"], options["blobs"], options["batch"])
    presenter = Presenter(runner, show_options, targets, quiet=options["quiet"], as_json=options["as_json"])
    scalars = [name for name, kind in types.items() if kind is not None and not kind.shape]
    moving = moving_input(options["inputs"], list(types), options["outs"], scalars)
    items = (
        [] if moving is not None else items_of(options["inputs"], list(types)) if options["inputs"] else [Item({})]
    )
    if options["random_weights"]:
        first = loader.load(items[0]).arrays if items and None in types.values() else {}
        net.fill(shapes={name: array.shape for name, array in first.items()} | shapes)
    if moving is not None:
        need(options["ray_address"] is None, "frames of a video run on this machine; leave out --ray", InputError)
        damaged = cli.video.VideoRun(presenter, moving, options["frames"] or 0, options["fps"] or 0.0).run()
        click.get_current_context().exit(1 if damaged else 0)
    if options["ray_address"] is not None:
        failed = cli.onray.run_on_ray(loader, items, options, progress(len(items), options["quiet"]))
        click.get_current_context().exit(1 if failed else 0)
    for target in targets:
        target.check(items)
    if presenter.run(items):
        click.get_current_context().exit(1)
