"""Write the weights of a trained PyTorch module back into a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

import anylayer
from anylayer.cli.command import (
    echo,
    input_option,
    json_option,
    make_command,
    network_options,
    read_net,
    reading_of,
    say,
    seed_option,
    shape_option,
    shapes_of,
)
from anylayer.cli.commands.convert import batch_of, spinner
from anylayer.cli.files import to_json
from anylayer.cli.inputs import feed


@make_command("anylayer weights net.prototxt net.caffemodel trained.pt -o new.caffemodel")
@network_options
@click.argument("state", type=click.Path(path_type=Path), required=False)
@click.option(
    "-o",
    "--out",
    required=True,
    type=click.Path(path_type=Path),
    help="The file to write, in the format of the old one.",
)
@click.option("--batch", metavar="N", help="The batch size that was given to generate.")
@input_option("an image, .npy or .npz, for the comparison; other inputs are seeded noise")
@seed_option
@shape_option
@json_option
def command(**options: Any) -> None:
    """Write the weights of a Caffe or Keras network again, as they were trained in PyTorch.

    STATE is the state_dict() of the module that `generate --for pytorch` writes for the network, as
    .safetensors or saved by torch.save. The new file has the trained numbers in place of the old ones, and nothing
    else changes. It appears only if NumPy computes with it what the trained module computes.
    """
    if options["state"] is None:  # MODEL STATE: the model has its own weights
        options["state"], options["weights"] = options["weights"], None
    if options["state"] is None:
        raise click.UsageError("Missing argument 'STATE': the file with the trained state_dict()")
    net = read_net(options)
    shapes = shapes_of(net, options["shapes"])
    has_inputs = options["inputs"] or options["seed"]
    with spinner(f"writing {options['out']}", options["quiet"]):
        written = anylayer.write_weights(
            options["model"],
            options["weights"],
            options["state"],
            options["out"],
            shapes=shapes,
            batch=batch_of(options["batch"]),
            inputs=feed(net, options["inputs"], shapes, options["seed"]) if has_inputs else None,
            **reading_of(options),
        )
    if options["as_json"]:
        echo(to_json(written.to_dict()))
        return
    for note in written.notes:
        say(f"note: {note}", options["quiet"])
    for line in written.report:
        echo(line)
    say(f"wrote {written.file}; {written.changed} of {written.total} weights have changed", options["quiet"])
