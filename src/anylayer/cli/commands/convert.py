"""anylayer convert: a network as a file of another format, proved equal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    TakesInputs,
    apply,
    input_option,
    network_options,
    read_net,
    say,
    shape_option,
    shapes_of,
    talk_options,
    to_size,
)
from anylayer.cli.commands.run import picture_options, pixels
from anylayer.inspect.tables import plural

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.convert.conversion import Conversion


def target_options(function: Any) -> Any:
    """What is written."""
    return apply(
        function,
        [
            click.option("--to", "format", metavar="FORMAT", help="The format to write [as OUT's suffix says]."),
            click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The file to write."),
            click.option("--functions", is_flag=True, help="Your layers stay calls of functions in the file."),
            click.option(
                "--function", "types", multiple=True, metavar="TYPE", help="Layers of this type stay calls, too."
            ),
            click.option(
                "--keep", multiple=True, metavar="TYPE", help="Leave layers of this type to a runtime that has it."
            ),
            click.option("--batch", metavar="N", help="The number of samples; a name, such as N, leaves it open."),
            click.option(
                "--to-dialect", metavar="NAME", help="The fork of Caffe to write for, where it is not --dialect."
            ),
            click.option(
                "--set",
                "settings",
                multiple=True,
                metavar="NAME=VALUE",
                callback=_settings,
                help="An option of the format's own writer.",
            ),
        ],
    )


def _settings(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, Any]:
    """`external=true` as {"external": True}; numbers as numbers, other words as they are."""
    import json

    found = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"an option is NAME=VALUE, got '{value}'", ctx, param)
        try:
            found[name] = json.loads(text)
        except ValueError:
            found[name] = text
    return found


@click.command(
    cls=TakesInputs,
    short_help="Write a network in another format, proved equal.",
    epilog="\b\nExample:\n  anylayer convert deploy.prototxt weights.caffemodel -l layers.py -o net.onnx",
)
@network_options
@target_options
@input_option("what to compare on, a picture, .npy or .npz; what is not given is seeded noise")
@click.option(
    "--preprocess",
    is_flag=False,
    flag_value="rgb",
    type=click.Choice(["rgb", "bgr"]),
    help="Put what `run` does to a picture into the file. The input becomes uint8 (N, H, W, 3), in RGB order.",
)
@click.option(
    "--picture",
    callback=to_size,
    metavar="WxH",
    help="The size of the pictures that the file takes with --preprocess [the size that the network takes].",
)
@picture_options
@click.option("--seed", type=int, default=0, help="The seed of random inputs and weights [0].")
@click.option("--no-verify", is_flag=True, help="Do not compare the file with its source.")
@click.option("--random-weights", is_flag=True, help="Fill missing weights with seeded random ones.")
@shape_option
@click.option("--json", "as_json", is_flag=True, help="Print JSON to stdout.")
@talk_options
def command(**given: Any) -> None:
    """Write a network as a file of another format: all of its layers, yours too, in what that format knows.

    At the end the file is read back and run by its own runtime, on the same inputs as the layers in NumPy; the
    largest difference of each output is shown. Where one is more than rounding makes, the first layer that
    differs is named, and nothing is written.
    """
    from anylayer.writers import format_of, load_writer

    fmt = given["format"] or format_of(given["out"])
    writer = load_writer(fmt)
    net, dialect = _read(given, "dialect" in writer.OPTIONS)
    shapes = shapes_of(net, given["shapes"])
    if given["random_weights"]:
        net.fill(given["seed"], shapes)
    verify = None
    if given["preprocess"]:
        net, shapes, verify = _preprocessed(net, given, shapes)
    elif given["picture"]:
        raise click.UsageError("--picture is the size of the pictures that a file with --preprocess takes")
    elif stray := [f"--{_PICTURE[n]}" for n in _PICTURE if given[n]]:
        raise click.UsageError(f"{stray[0]} is about --preprocess: give that too")
    with _working(f"writing {given['out']}", given["quiet"]):
        done = net.write(
            given["out"],
            fmt,
            functions=_functions(net, given),
            keep=given["keep"],
            batch=_batch(given["batch"]),
            dialect=dialect,
            shapes=shapes,
            verify=_inputs(net, given, shapes) if verify is None else verify,
            **given["settings"],
        )
    _show(done, given)


_PICTURE = {n: n for n in ("size", "mean", "scale", "gray", "pixels")} | {"swap": "swap-rb", "cover": "crop"}
"""The options of pictures, as they are spelled."""
_NETWORK = ("model", "weights", "layers", "dialect", "proto", "phase", "level", "stage")


def _read(given: dict[str, Any], has_dialects: bool) -> tuple[Net, str | None]:
    """The network, and the dialect to write: --dialect is that of the file that is read, where its format has any,
    and of the one that is written, where that has any."""
    from anylayer.api import read_options

    network = {k: given[k] for k in _NETWORK}
    if has_dialects and given["dialect"] and "dialect" not in read_options(given["model"]):
        network["dialect"] = None
    return read_net(**network), given["to_dialect"] or (given["dialect"] if has_dialects else None)


def _preprocessed(
    net: Net, given: dict[str, Any], shapes: dict[str, tuple[int, ...]]
) -> tuple[Net, dict[str, tuple[int, ...]], Any]:
    """Return the network behind what `run` does to a picture, the shapes of its inputs, and what to compare on."""
    from anylayer.cli.inputs import Loader, Wanted, pictures_to_compare
    from anylayer.cli.preprocess import picture_function
    from anylayer.compile.nodes import input_types
    from anylayer.errors import InputError, need

    types = input_types(net.network, shapes)
    need(types, "the network has no inputs", InputError)
    loader = Loader(net, types, Wanted(given["size"], **pixels(given), cover=given["cover"], gray=given["gray"]))
    name = next(iter(types))
    recipe, last = loader.recipe(name), loader.last(name)
    size = given["picture"] if isinstance(given["picture"], tuple) else recipe.size
    need(size is not None, "give the size of the pictures that the file takes: --picture WxH", InputError)
    known = types[name]
    shape = (known.shape[0] if known is not None else 1, *(size or ()), 3)
    say(f"input '{name}': {recipe}", given["quiet"])
    whole = net.before(picture_function(recipe, last, given["preprocess"] == "rgb"), (shape, "uint8"))
    rest = {n: s for n, s in shapes.items() if n != name}
    if given["no_verify"]:
        return whole, rest, False
    return whole, rest, pictures_to_compare(whole, given["inputs"], shape, given["preprocess"], given["seed"])


def _functions(net: Net, given: dict[str, Any]) -> bool | list[str]:
    """The types of the layers that stay calls."""
    if not given["types"]:
        return bool(given["functions"])
    return [*(net.user_layers if given["functions"] else ()), *given["types"]]


def _batch(text: str | None) -> str | int | None:
    return int(text) if text is not None and text.isdigit() else text


def _inputs(net: Net, given: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> Any:
    """The inputs to compare on; True where none are given."""
    if given["no_verify"]:
        return False
    if not given["inputs"] and not given["seed"]:
        return True
    from anylayer.cli.inputs import feed

    return feed(net, given["inputs"], shapes, given["seed"])


@contextmanager
def _working(text: str, quiet: bool) -> Iterator[None]:
    """A sign on stderr that something is going on, on a terminal."""
    import sys

    if quiet or not sys.stderr.isatty():
        yield
        return
    from anylayer.cli.command import console

    with console(stderr=True).status(text):
        yield


def _show(done: Conversion, given: dict[str, Any]) -> None:
    if given["as_json"]:
        from anylayer.cli.files import to_json

        click.echo(to_json({"model": str(given["model"]), **done.to_dict()}))
        return
    for note in done.notes:
        say(f"note: {note}", given["quiet"])
    for check in done.checks:
        tried = f" ({plural(check.samples, 'sample')})" if check.samples else ""
        run_by = f" in {check.run_by}" if check.run_by else ""
        click.echo(f"{check.name}{tried}{run_by}: {check}")
    files = ", ".join(str(f) for f in reversed(done.files))
    count = plural(len({c.name for c in done.checks}), "output")
    told = f": {count}, run by {done.runs}, compared with the layers in NumPy"
    if not done.checks:
        told = f"; not compared with its source: {done.unchecked}"
    say(f"wrote {files}{told}", given["quiet"])
