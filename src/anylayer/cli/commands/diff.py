"""Find out whether two files compute the same, and where they part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import anylayer
from anylayer.api import read_options
from anylayer.cli.command import (
    echo,
    input_option,
    json_option,
    make_command,
    read_net,
    reading_options,
    say,
    seed_option,
    shape_option,
    shapes_of,
    terminal_width,
)
from anylayer.cli.files import to_json
from anylayer.cli.image_options import image_options, preprocessing_of
from anylayer.cli.inputs import Loader
from anylayer.cli.progress import progress
from anylayer.compile.inputs import input_types

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.network import Array

_WEIGHTS = (".caffemodel", ".caffemodel.h5", ".weights.h5", ".bin")
_OF_FORMATS = {"dialect": None, "proto": None, "phase": "TEST", "level": 0, "stage": (), "output": (), "raw": None}
"""The options that belong to the files of some formats, with their defaults."""
_READ_AS = {"stage": "stages", "output": "outputs"}
_PAIR = 2
_BAD: dict[str, Any] = {"fg": "red", "bold": True}


@make_command(
    "anylayer diff deploy.prototxt net.caffemodel converted.onnx"
    "\n  anylayer diff model.h5 model.onnx -i cat.jpg -o diff.html"
)
@click.argument(
    "files", nargs=-1, required=True, metavar="A [WEIGHTS] B [WEIGHTS]", type=click.Path(path_type=Path)
)
@click.option("-o", "--out", type=click.Path(path_type=Path), help="Write the two networks side by side as HTML.")
@click.option(
    "--map", "names", multiple=True, metavar="A=B", help="An input or output of A, and the one of B that it is."
)
@click.option("--all", "every", is_flag=True, help="List all nodes, not only those that differ.")
@input_option("an image, .npy or .npz; others are seeded noise")
@image_options
@reading_options
@shape_option
@seed_option
@json_option
def command(
    files: tuple[Path, ...], out: Path | None, names: tuple[str, ...], every: bool, **options: Any
) -> None:
    """Compare two networks of any formats node by node, such as a converter's input and output.

    Both run in NumPy on the same input. Nodes correspond where their numbers are equal, also in another layout,
    under another name, and where nodes were folded (BatchNorm into Conv). Each node of B gets A's numbers, so
    that every place where they part is found, and what differs there: parameters, shapes, weights.

    The exit status is 0 if both compute the same, and 1 if they do not, if nothing was compared because outputs
    are constant or empty, or if a file cannot be read.
    """
    nets = [_read(model, weights, options) for model, weights in _networks(files)]
    pairs = dict(_pair(name) for name in names)
    shapes = shapes_of(nets[0], options["shapes"])
    arrays = _inputs(nets[0], shapes, options)
    quiet = options["quiet"]
    with progress(0, quiet, "nodes") as (count, _, _):
        result = anylayer.diff(
            nets[0], nets[1], arrays, shapes=shapes or None, names=pairs, seed=options["seed"], count=count
        )
    if options["as_json"]:
        echo(to_json(result.to_dict()))
    else:
        for line in result.lines(terminal_width(), every=every):
            bad = line.startswith(("first difference", "different"))
            echo(line, **(_BAD if bad else {}))
    if out is not None:
        result.save(out)
        say(f"wrote {out}", quiet)
    if not result.same:
        click.get_current_context().exit(1)


def _networks(files: Sequence[Path]) -> list[tuple[Path, Path | None]]:
    """Return A and B, each with its weights or None. A name that ends like a file of weights belongs to the
    network before it."""
    networks: list[tuple[Path, Path | None]] = []
    for file in files:
        if networks and networks[-1][1] is None and file.name.lower().endswith(_WEIGHTS) and len(files) > _PAIR:
            networks[-1] = networks[-1][0], file
        else:
            networks.append((file, None))
    if len(networks) != _PAIR:
        raise click.UsageError(
            f"give two networks, each with its weights if they are another file; got {len(networks)}"
        )
    return networks


def _read(model: Path, weights: Path | None, options: Mapping[str, Any]) -> Net:
    """Read a network with the options that its format has."""
    accepted = read_options(model)
    usable = {k: options[k] if _READ_AS.get(k, k) in accepted else unset for k, unset in _OF_FORMATS.items()}
    return read_net({**options, **usable, "model": model, "weights": weights})


def _pair(text: str) -> tuple[str, str]:
    a, equals, b = text.partition("=")
    if not (a and equals and b):
        raise click.UsageError(f"--map takes NAME=NAME, of A and of B; got '{text}'")
    return a, b


def _inputs(net: Net, shapes: Mapping[str, Any], options: dict[str, Any]) -> dict[str, Array] | None:
    """Return the arrays of the -i options, made for A; None if all inputs are noise."""
    if not options["inputs"]:
        return None
    types = input_types(net.network, shapes)
    return Loader(net, types, preprocessing_of(options), shapes).load_single(options["inputs"]).arrays
