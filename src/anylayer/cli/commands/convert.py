"""Write a network in another format and verify the file."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer import cli
from anylayer.api import Net, read_options
from anylayer.cli.command import (
    F,
    TakesInputs,
    apply,
    completing,
    console,
    dialects,
    echo,
    input_option,
    json_option,
    network_options,
    open_shape_option,
    random_weights_option,
    read_net,
    say,
    seed_option,
    shapes_of,
    talk_options,
    to_size,
)
from anylayer.cli.files import to_json
from anylayer.cli.image_options import image_options, preprocessing_of
from anylayer.cli.inputs import Loader, feed, images_to_compare
from anylayer.cli.items import items_of
from anylayer.compile.inputs import input_types
from anylayer.errors import InputError, clean_lines, need, plural
from anylayer.images.preprocess import image_function
from anylayer.writers import format_of, load_writer, writers

if TYPE_CHECKING:
    from anylayer.convert.conversion import Conversion
    from anylayer.convert.nodes import NodeError
    from anylayer.network import TensorType


def target_options(function: F) -> F:
    """Add the options that say what is written."""
    return apply(
        function,
        [
            click.option(
                "--to",
                "format",
                metavar="FORMAT",
                shell_complete=completing(writers),
                help="The format to write [from the suffix of OUT].",
            ),
            click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The file to write."),
            click.option("--functions", is_flag=True, help="Keep your layers as calls of functions in the file."),
            click.option(
                "--function",
                "types",
                multiple=True,
                metavar="TYPE",
                help="Also keep layers of this type as calls of functions.",
            ),
            click.option(
                "--keep",
                multiple=True,
                metavar="TYPE",
                help="Write layers of this type unchanged, for a runtime that has them.",
            ),
            click.option("--batch", metavar="N", help="The batch size: a number, or a name for a symbolic size."),
            click.option(
                "--to-dialect",
                metavar="NAME",
                shell_complete=completing(dialects),
                help="The fork of Caffe to write for [--dialect].",
            ),
            click.option(
                "--precision",
                type=click.Choice(["float32", "float16", "int8"]),
                help="float16: the weights and most operators; int8: convolutions and matrix products [float32].",
            ),
            click.option(
                "--float32",
                multiple=True,
                metavar="NODE",
                help="Keep this node of the network in float32, with another --precision.",
            ),
            click.option(
                "--calibrate",
                multiple=True,
                metavar="[NAME=]FOLDER",
                help="Representative images or .npy files, which determine the ranges for --precision int8.",
            ),
            settings_option("the writer, for example external=true for ONNX"),
        ],
    )


def settings_option(owner: str) -> Callable[[F], F]:
    """Add --set. `owner` is what has the options."""
    return click.option(
        "--set",
        "settings",
        multiple=True,
        metavar="NAME=VALUE",
        callback=_settings,
        help=f"An option of {owner}.",
    )


_OWN = {*signature(Net.write).parameters, *signature(Net.generate).parameters}
"""What Net.write and Net.generate get from options of their own."""


def _settings(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> dict[str, Any]:
    """Return `external=true` as {"external": True}. A value that is not JSON is a string."""
    settings = {}
    for value in values:
        name, equals, text = value.partition("=")
        if not equals or not name.isidentifier():
            raise click.BadParameter(f"an option is NAME=VALUE, got '{value}'", ctx, param)
        if name in _OWN:
            raise click.BadParameter(f"{name} is not set here: see the options of --help", ctx, param)
        try:
            settings[name] = json.loads(text)
        except ValueError:
            settings[name] = text
    return settings


@click.command(
    cls=TakesInputs,
    epilog="\b\nExample:\n  anylayer convert deploy.prototxt weights.caffemodel -l layers.py -o net.onnx",
)
@network_options
@target_options
@input_option("an image, .npy or .npz, for the comparison; other inputs are seeded noise")
@click.option(
    "--preprocess",
    is_flag=False,
    flag_value="rgb",
    type=click.Choice(["rgb", "bgr"]),
    help="Put the preprocessing of `run` into the file. The input becomes uint8 (N, H, W, 3), in RGB order.",
)
@click.option(
    "--picture",
    callback=partial(to_size, word="any"),
    metavar="WxH",
    help="The size of the images that the file accepts with --preprocess; 'any' for all sizes [the input's size].",
)
@image_options
@seed_option
@click.option("--no-verify", is_flag=True, help="Do not compare the file with its source.")
@random_weights_option
@open_shape_option
@json_option
@talk_options
def command(**given: Any) -> None:
    """Write a network in another format. All layers, including yours, become operators of that format.

    Then the format's own runtime runs the file on the same inputs as the layers in NumPy, and the largest
    difference of each output is printed. If a difference exceeds the tolerance, the first layer that differs is
    named and no file is written.
    """
    fmt = given["format"] or format_of(given["out"])
    writer = load_writer(fmt)
    net, dialect = _read(given, "dialect" in writer.OPTIONS)
    shapes = shapes_of(net, given["shapes"])
    if given["random_weights"]:
        net.fill(given["seed"], shapes)
    _need_purpose(given)
    verify = None
    if given["preprocess"]:
        net, shapes, verify = _with_preprocessing(net, given, shapes)
    calibrate = _calibration(net, given, shapes)
    if calibrate is not None and not given["inputs"]:
        verify = not given["no_verify"]
    with spinner(f"writing {given['out']}", given["quiet"]):
        done = net.write(
            given["out"],
            fmt,
            functions=_functions(net, given),
            keep=given["keep"],
            batch=None if given["preprocess"] else batch_of(given["batch"]),
            dialect=dialect,
            shapes=shapes,
            verify=_inputs(net, given, shapes) if verify is None else verify,
            precision=given["precision"],
            float32=given["float32"],
            calibrate=calibrate,
            **given["settings"],
        )
    _show(done, given)


_IMAGE_OPTIONS = {n: n for n in ("size", "mean", "scale", "gray", "pixels")} | {"swap": "swap-rb", "cover": "crop"}
"""The options for images as they are spelled."""


def _need_purpose(given: dict[str, Any]) -> None:
    """Refuse options for images where no image is read."""
    if given["picture"] and not given["preprocess"]:
        raise click.UsageError("--picture needs --preprocess: it is the size of the images that the file accepts")
    if given["calibrate"] and given["precision"] != "int8":
        raise click.UsageError("--calibrate needs --precision int8")
    stray = [f"--{_IMAGE_OPTIONS[n]}" for n in _IMAGE_OPTIONS if given[n]]
    if stray and not given["preprocess"] and not given["calibrate"]:
        raise click.UsageError(f"{stray[0]} needs --preprocess or --calibrate")


def _read(given: dict[str, Any], has_dialects: bool) -> tuple[Net, str | None]:
    """Read the network. Return it and the dialect to write.

    --dialect applies to the file that is read and to the file that is written, if their formats have dialects.
    """
    only_written = has_dialects and given["dialect"] and "dialect" not in read_options(given["model"])
    net = read_net({**given, "dialect": None} if only_written else given)
    return net, given["to_dialect"] or (given["dialect"] if has_dialects else None)


def _with_preprocessing(
    net: Net, given: dict[str, Any], shapes: dict[str, tuple[Any, ...]]
) -> tuple[Net, dict[str, tuple[Any, ...]], Any]:
    """Prepend the preprocessing of `run` to a network.

    Return the new network, the shapes of its other inputs, and the inputs for the comparison (see `_inputs`).
    """
    opened = next((n for n, shape in shapes.items() if any(isinstance(d, str) for d in shape)), "")
    need(
        not opened,
        f"input '{opened}': with --preprocess, sizes in --shape are numbers. For images of every size, give "
        "--picture any with --size WxH (images are resized to it) or --size keep",
        InputError,
    )
    types = input_types(net.network, shapes)
    need(types, "the network has no inputs", InputError)
    loader = Loader(net, types, preprocessing_of(given))
    name = next(iter(types))
    recipe, channels_last = loader.recipe(name), loader.channels_last(name)
    is_any = given["picture"] == "any"
    rule = "--crop needs images of one size: give --picture WxH, or leave out --crop"
    need(not (is_any and recipe.cover), rule, InputError)
    known = types[name]
    own = known.shape[2:] if known is not None and not loader.channels_last(name) else None
    size = given["picture"] if isinstance(given["picture"], tuple) else recipe.size or own
    if size is None:
        raise InputError("the size of the images is unknown: give --picture WxH")
    rest = _with_batch(net, batch_of(given["batch"]), types, shapes)
    first = rest.pop(name)[0] if name in rest else known.shape[0] if known is not None else 1
    shape = (first if isinstance(first, int) else 1, *size, 3)
    if shape[0] > 1 and not (shapes or given["batch"]):
        say(f"the network accepts only batches of {first}, so the file takes {first} images", given["quiet"])
    say(f"input '{name}': {recipe}", given["quiet"])
    taken = {*types, *(value for node in net.network.nodes for value in node.outputs)}
    function = image_function(recipe, channels_last, given["preprocess"] == "rgb", taken)
    whole = net.before(function, (shape, "uint8"))
    image = next(iter(whole.network.inputs))
    whole.network.layouts[image], whole.network.channel_orders[image] = "NHWC", given["preprocess"].upper()
    rest[image] = (first, "H", "W", 3) if is_any else (first, *size, 3)
    if given["no_verify"]:
        return whole, rest, False
    if not given["inputs"] and any(isinstance(d, str) for s in rest.values() for d in s):
        return whole, rest, True
    return whole, rest, images_to_compare(whole, given["inputs"], shape, given["seed"], any_size=is_any)


def _with_batch(
    net: Net,
    batch: str | int | None,
    types: Mapping[str, TensorType | None],
    shapes: Mapping[str, tuple[Any, ...]],
) -> dict[str, tuple[Any, ...]]:
    """Return the shapes with the batch size of --batch, or with 1 if no shapes are given and the network takes it.

    `anylayer run` runs one image alone, too, if the shapes of the outputs are known for it.
    """
    from anylayer.convert.job import batched_inputs, first_sizes, need_one_batch

    known = {n: kind.shape for n in batched_inputs(net.network, types) if (kind := types[n]) is not None}
    firsts = first_sizes(types, known)
    if batch is not None:
        need_one_batch(firsts)
        return {**shapes, **{n: (batch, *shape[1:]) for n, shape in known.items()}}
    alone = {n: (1, *shape[1:]) for n, shape in known.items()}
    if shapes or len({*firsts.values()} - {1}) != 1 or 1 in firsts.values():
        return dict(shapes)
    values = {name: kind for node in net.inspect(alone).nodes for name, kind in node.outputs}
    return alone if all(values.get(value) for value in net.network.outputs.values()) else {}


def _calibration(net: Net, given: dict[str, Any], shapes: dict[str, tuple[Any, ...]]) -> Any:
    """Return the sets of inputs of --calibrate, None without it.

    With --preprocess the network takes images as they are. With open sizes, images keep their size by default.
    """
    from anylayer.compile.open import open_types
    from anylayer.convert.job import batched_inputs, with_batch

    if not given["calibrate"]:
        return None
    types, sizes = open_types(net.network, shapes)
    batch = batch_of(given["batch"])
    if isinstance(batch, int):
        types = with_batch(types, batch, batched_inputs(net.network, types))
    if given["preprocess"]:
        unsized = {**types, **dict.fromkeys(sizes.shapes)} if sizes is not None else types
        loader = Loader(net, unsized)
    else:
        options = preprocessing_of(given)
        opened = sizes is not None and any(d.symbols for shape in sizes.shapes.values() for d in shape[1:])
        loader = Loader(net, types, replace(options, size=options.size or "keep") if opened else options)
    items = items_of(given["calibrate"], list(types))
    for line in loader.describe(items[0]):
        say(line, given["quiet"])
    return cli.calibration.Pictures(loader, items, sizes)


def _functions(net: Net, given: dict[str, Any]) -> bool | list[str]:
    """Return the types of the layers that stay calls, or whether all of the user's layers do."""
    if not given["types"]:
        return bool(given["functions"])
    return [*(net.user_layers if given["functions"] else ()), *given["types"]]


def batch_of(text: str | None) -> str | int | None:
    """Return --batch as a number, or as the name of a symbolic size."""
    return int(text) if text is not None and text.isdigit() else text


def _inputs(net: Net, given: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> Any:
    """Return the inputs for the comparison, True for noise, or False for no comparison."""
    if given["no_verify"]:
        return False
    if not given["inputs"] and not given["seed"]:
        return True

    return feed(net, given["inputs"], shapes, given["seed"])


@contextmanager
def spinner(text: str, quiet: bool) -> Iterator[None]:
    """Show a spinner with a text on stderr during the `with` block, if stderr is a terminal."""
    if quiet or not sys.stderr.isatty():
        yield
        return
    from rich.text import Text

    with console(stderr=True).status(Text(clean_lines(text))):
        yield


_SHOWN_NODES = 10


def _show_nodes(nodes: Sequence[NodeError]) -> None:
    """Print the nodes that add most to the error, as a table."""
    if not nodes:
        return
    most = sorted(nodes, key=lambda n: -n.added)[:_SHOWN_NODES]
    echo(f"the nodes that add most to the relative error ({len(most)} of {len(nodes)}):")
    for node in most:
        echo(f"  {node.name} ({node.type}): adds {node.added:.2%}, relative error {node.error:.2%}")


def _show(done: Conversion, given: dict[str, Any]) -> None:
    """Print the comparison of each output to stdout, and notes and files to stderr."""
    if given["as_json"]:
        echo(to_json({"model": str(given["model"]), **done.to_dict()}))
        return
    for note in done.notes:
        say(f"note: {note}", given["quiet"])
    for check in done.checks:
        echo(f"{check.label}: {check}, accepted by {check.accepted_by}")
    _show_nodes(done.nodes)
    files = ", ".join(str(f) for f in reversed(done.files))
    count = plural(len({c.name for c in done.checks if not c.part}), "output")
    verdict = f": {count}, run by {done.runs}, compared with the layers in NumPy"
    if not done.checks:
        verdict = f"; not compared with its source: {done.unchecked}"
    say(f"wrote {files}{verdict}", given["quiet"])
