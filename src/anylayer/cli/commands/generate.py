"""Write a network as source code for another runtime."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    completing,
    echo,
    input_option,
    json_option,
    make_command,
    network_options,
    random_weights_option,
    read_net,
    say,
    seed_option,
    shape_option,
    shapes_of,
)
from anylayer.cli.commands.convert import batch_of, settings_option, spinner
from anylayer.cli.files import to_json
from anylayer.cli.inputs import feed
from anylayer.generators import targets

if TYPE_CHECKING:
    from anylayer.convert.generation import Generation


@make_command("anylayer generate net.prototxt net.caffemodel --for pytorch -o project")
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
def command(**options: Any) -> None:
    """Write a network as a project in source code. All layers, including yours, become code, which does not need
    anylayer.

    The project contains its own test: inputs, and the outputs that the layers compute in NumPy. The test is run if
    its tools are installed, and the folder appears only if it passes. A folder whose files were edited is replaced
    only with --force.
    """
    net = read_net(options)
    shapes = shapes_of(net, options["shapes"])
    if options["random_weights"]:
        net.fill(options["seed"], shapes)
    inputs = None
    if options["inputs"] or options["seed"]:
        inputs = feed(net, options["inputs"], shapes, options["seed"])
    with spinner(f"writing {options['out']}", options["quiet"]):
        generation = net.generate(
            options["target"],
            options["out"],
            batch=batch_of(options["batch"]),
            layer=options["layer"],
            shapes=shapes,
            inputs=inputs,
            test=not options["no_test"],
            force=options["force"],
            **options["settings"],
        )
    _show(generation, options)


def _show(generation: Generation, options: dict[str, Any]) -> None:
    """Print what the project's test printed to stdout, and notes and files to stderr."""
    if options["as_json"]:
        echo(to_json({"model": str(options["model"]), **generation.to_dict()}))
        return
    for note in generation.notes:
        say(f"note: {note}", options["quiet"])
    for line in generation.report:
        echo(line)
    names = ", ".join(file.relative_to(generation.folder).as_posix() for file in generation.files)
    verdict = f"its test was not run: {generation.untested}" if generation.untested else "its test passes"
    say(f"wrote {generation.folder} ({names}); {verdict}", options["quiet"])
    if generation.untested:
        commands = [shlex.join(["cd", str(generation.folder)]), *generation.commands]
        say(f"to build and run the test: {' && '.join(commands)}", options["quiet"])
