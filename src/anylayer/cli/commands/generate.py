"""Write a network as source code for another runtime."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    TakesInputs,
    completing,
    echo,
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
)
from anylayer.cli.commands.convert import batch_of, settings_option, spinner
from anylayer.cli.files import to_json
from anylayer.cli.inputs import feed
from anylayer.generators import targets

if TYPE_CHECKING:
    from anylayer.convert.generation import Generation


@click.command(
    cls=TakesInputs,
    epilog="\b\nExample:\n  anylayer generate deploy.prototxt weights.caffemodel -l layers.py "
    "--for pytorch -o project",
)
@network_options
@click.option(
    "--for",
    "target",
    required=True,
    metavar="TARGET",
    shell_complete=completing(targets),
    help=f"The runtime to write for: {', '.join(targets())}.",
)
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@click.option(
    "--layer",
    multiple=True,
    metavar="TYPE",
    help="Write only layers of this type; may be repeated [all of yours].",
)
@click.option("--batch", metavar="N", help="The batch size [any, if the network allows it].")
@settings_option("the target")
@input_option("an image, .npy or .npz, for the test; other inputs are seeded noise")
@seed_option
@click.option("--no-test", is_flag=True, help="Do not run the project's test.")
@click.option("--force", is_flag=True, help="Replace a folder whose files were edited.")
@random_weights_option
@shape_option
@json_option
@talk_options
def command(**given: Any) -> None:
    """Write a network as a project in source code. All layers, including yours, become code, which does not need
    anylayer.

    The project contains its own test: inputs, and the outputs that the layers compute in NumPy. The test is run if
    its tools are installed, and the folder appears only if it passes. A folder whose files were edited is replaced
    only with --force.
    """
    net = read_net(given)
    shapes = shapes_of(net, given["shapes"])
    if given["random_weights"]:
        net.fill(given["seed"], shapes)
    inputs = None
    if given["inputs"] or given["seed"]:
        inputs = feed(net, given["inputs"], shapes, given["seed"])
    with spinner(f"writing {given['out']}", given["quiet"]):
        done = net.generate(
            given["target"],
            given["out"],
            batch=batch_of(given["batch"]),
            layer=given["layer"],
            shapes=shapes,
            inputs=inputs,
            test=not given["no_test"],
            force=given["force"],
            **given["settings"],
        )
    _show(done, given)


def _show(done: Generation, given: dict[str, Any]) -> None:
    """Print what the project's test printed to stdout, and notes and files to stderr."""
    if given["as_json"]:
        echo(to_json({"model": str(given["model"]), **done.to_dict()}))
        return
    for note in done.notes:
        say(f"note: {note}", given["quiet"])
    for line in done.report:
        echo(line)
    names = ", ".join(file.relative_to(done.folder).as_posix() for file in done.files)
    verdict = f"its test was not run: {done.untested}" if done.untested else "its test passes"
    say(f"wrote {done.folder} ({names}); {verdict}", given["quiet"])
    if done.untested:
        say(
            f"to build and run the test: {' && '.join([shlex.join(['cd', str(done.folder)]), *done.commands])}",
            given["quiet"],
        )
