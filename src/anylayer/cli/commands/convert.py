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
from anylayer.api import Net
from anylayer.cli.command import (
    F,
    ImageOption,
    apply,
    completing,
    console,
    dialects,
    echo,
    input_option,
    json_option,
    make_command,
    network_options,
    open_shape_option,
    random_weights_option,
    read_net,
    say,
    seed_option,
    shapes_of,
    to_size,
)
from anylayer.cli.files import to_json
from anylayer.cli.image_options import image_options, preprocessing_of
from anylayer.cli.inputs import Loader, feed, images_to_compare
from anylayer.cli.items import items_of
from anylayer.compile.inputs import input_types
from anylayer.errors import InputError, clean_lines, need, plural
from anylayer.images.preprocess import image_function
from anylayer.layer import Registry
from anylayer.readers import reader_of
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
            click.option("--functions", is_flag=True, help="Keep your layers as functions in the file."),
            click.option(
                "--function",
                "types",
                multiple=True,
                metavar="TYPE",
                help="Keep layers of this type as functions, too.",
            ),
            click.option(
                "--keep", multiple=True, metavar="TYPE", help="Keep this type, for a runtime that has it."
            ),
            click.option("--batch", metavar="N", help="The batch size: a number, or a name (any size)."),
            click.option(
                "--to-dialect",
                metavar="NAME",
                shell_complete=completing(dialects),
                help="The fork of Caffe to write for [--dialect].",
            ),
            click.option(
                "--precision",
                type=click.Choice(["float32", "float16", "int8"]),
                metavar="TYPE",
                help="float32, float16 or int8 [float32].",
            ),
            click.option("--float32", multiple=True, metavar="NODE", help="Keep this node in float32."),
            click.option(
                "--calibrate",
                multiple=True,
                metavar="[NAME=]FOLDER",
                help="Representative images or .npy files for int8.",
            ),
            settings_option("the writer: external=true (ONNX)"),
        ],
    )


def settings_option(owner: str) -> Callable[[F], F]:
    """Add --set. `owner` is what has the options."""
    return click.option(
        "--set", "settings", multiple=True, metavar="NAME=VALUE", callback=_settings, help=f"An option of {owner}."
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


@make_command("anylayer convert deploy.prototxt weights.caffemodel -l layers.py -o net.onnx")
@network_options
@target_options
@input_option("an image, .npy or .npz; others are seeded noise")
@click.option(
    "--preprocess",
    cls=ImageOption,
    is_flag=False,
    flag_value="rgb",
    type=click.Choice(["rgb", "bgr"]),
    help="Do this inside the file: uint8 (N, H, W, 3) in.",
)
@click.option(
    "--picture",
    cls=ImageOption,
    callback=partial(to_size, word="any"),
    metavar="WxH",
    help="With --preprocess: images' size or any [input's].",
)
@image_options
@seed_option
@click.option("--no-verify", is_flag=True, help="Do not compare the file with its source.")
@random_weights_option
@open_shape_option
@json_option
def command(**options: Any) -> None:
    """Write a network in another format. Your layers become its operators, too.

    The format's own runtime runs the file, and each output is compared with that of the layers in NumPy. If one
    differs, the first layer that does is named, and no file is written.
    """
    fmt = options["format"] or format_of(options["out"])
    writer = load_writer(fmt)
    net, dialect = _read(options, "dialect" in writer.OPTIONS)
    shapes = shapes_of(net, options["shapes"])
    if options["random_weights"]:
        net.fill(options["seed"], shapes)
    _need_purpose(options)
    verify = None
    if options["preprocess"]:
        net, shapes, verify = _with_preprocessing(net, options, shapes)
    calibrate = _calibration(net, options, shapes)
    if calibrate is not None and not options["inputs"]:
        verify = not options["no_verify"]
    with spinner(f"writing {options['out']}", options["quiet"]):
        conversion = net.write(
            options["out"],
            fmt,
            functions=_functions(net, options),
            keep=options["keep"],
            batch=None if options["preprocess"] else batch_of(options["batch"]),
            dialect=dialect,
            shapes=shapes,
            verify=_inputs(net, options, shapes) if verify is None else verify,
            precision=options["precision"],
            float32=options["float32"],
            calibrate=calibrate,
            **options["settings"],
        )
    _show(conversion, options)


_IMAGE_OPTIONS = {n: n for n in ("size", "mean", "scale", "gray", "pixels")} | {"swap": "swap-rb", "cover": "crop"}
"""The options for images as they are spelled."""


def _need_purpose(options: dict[str, Any]) -> None:
    """Refuse options for images where no image is read."""
    if options["picture"] and not options["preprocess"]:
        raise click.UsageError("--picture needs --preprocess: it is the size of the images that the file accepts")
    if options["calibrate"] and options["precision"] != "int8":
        raise click.UsageError("--calibrate needs --precision int8")
    stray = [f"--{_IMAGE_OPTIONS[n]}" for n in _IMAGE_OPTIONS if options[n]]
    if stray and not (options["preprocess"] or options["calibrate"] or options["inputs"]):
        raise click.UsageError(f"{stray[0]} needs -i, --preprocess or --calibrate")


def _read(options: dict[str, Any], has_dialects: bool) -> tuple[Net, str | None]:
    """Read the network. Return it and the dialect to write.

    --dialect applies to the file that is read and to the file that is written, if their formats have this dialect.
    """
    dialect = options["dialect"]
    path = Path(options["model"])
    matching = reader_of(path) if dialect and path.exists() else None
    names = Registry.of(matching[0]).dialects() if matching and "dialect" in matching[1].OPTIONS else set()
    only_written = has_dialects and dialect not in names and (not names or dialect in dialects())
    net = read_net({**options, "dialect": None} if only_written else options)
    is_written = has_dialects and (dialect not in names or dialect in dialects())
    return net, options["to_dialect"] or (dialect if is_written else None)


def _with_preprocessing(
    net: Net, options: dict[str, Any], shapes: dict[str, tuple[Any, ...]]
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
    loader = Loader(net, types, preprocessing_of(options))
    name = next(iter(types))
    recipe, channels_last = loader.recipe(name), loader.channels_last(name)
    is_any = options["picture"] == "any"
    rule = "--crop needs images of one size: give --picture WxH, or leave out --crop"
    need(not (is_any and recipe.cover), rule, InputError)
    kind = types[name]
    network_size = kind.shape[2:] if kind is not None and not loader.channels_last(name) else None
    size = options["picture"] if isinstance(options["picture"], tuple) else recipe.size or network_size
    if size is None:
        raise InputError("the size of the images is unknown: give --picture WxH")
    rest = _with_batch(net, batch_of(options["batch"]), types, shapes)
    first = rest.pop(name)[0] if name in rest else kind.shape[0] if kind is not None else 1
    shape = (first if isinstance(first, int) else 1, *size, 3)
    if shape[0] > 1 and not (shapes or options["batch"]):
        say(f"the network accepts only batches of {first}, so the file takes {first} images", options["quiet"])
    say(f"input '{name}': {recipe}", options["quiet"])
    names = {*types, *(value for node in net.network.nodes for value in node.outputs)}
    function = image_function(recipe, channels_last, options["preprocess"] == "rgb", names)
    whole = net.before(function, (shape, "uint8"))
    image = next(iter(whole.network.inputs))
    whole.network.layouts[image], whole.network.channel_orders[image] = "NHWC", options["preprocess"].upper()
    rest[image] = (first, "H", "W", 3) if is_any else (first, *size, 3)
    if options["no_verify"]:
        return whole, rest, False
    if not options["inputs"] and any(isinstance(d, str) for s in rest.values() for d in s):
        return whole, rest, True
    return whole, rest, images_to_compare(whole, options["inputs"], shape, options["seed"], any_size=is_any)


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

    batched_shapes = {n: kind.shape for n in batched_inputs(net.network, types) if (kind := types[n]) is not None}
    firsts = first_sizes(types, batched_shapes)
    if batch is not None:
        need_one_batch(firsts)
        return {**shapes, **{n: (batch, *shape[1:]) for n, shape in batched_shapes.items()}}
    alone = {n: (1, *shape[1:]) for n, shape in batched_shapes.items()}
    if shapes or len({*firsts.values()} - {1}) != 1 or 1 in firsts.values():
        return dict(shapes)
    values = {name: kind for node in net.inspect(alone).nodes for name, kind in node.outputs}
    return alone if all(values.get(value) for value in net.network.outputs.values()) else {}


def _calibration(net: Net, options: dict[str, Any], shapes: dict[str, tuple[Any, ...]]) -> Any:
    """Return the sets of inputs of --calibrate, None without it.

    With --preprocess the network takes images as they are. With open sizes, images keep their size by default.
    """
    from anylayer.compile.open import open_types
    from anylayer.convert.job import batched_inputs, with_batch

    if not options["calibrate"]:
        return None
    types, sizes = open_types(net.network, shapes)
    batch = batch_of(options["batch"])
    if isinstance(batch, int):
        types = with_batch(types, batch, batched_inputs(net.network, types))
    if options["preprocess"]:
        unsized = {**types, **dict.fromkeys(sizes.shapes)} if sizes is not None else types
        loader = Loader(net, unsized)
    else:
        recipe_options = preprocessing_of(options)
        opened = sizes is not None and any(d.symbols for shape in sizes.shapes.values() for d in shape[1:])
        loader = Loader(
            net, types, replace(recipe_options, size=recipe_options.size or "keep") if opened else recipe_options
        )
    items = items_of(options["calibrate"], list(types))
    for line in loader.describe(items[0]):
        say(line, options["quiet"])
    return cli.calibration.Pictures(loader, items, sizes)


def _functions(net: Net, options: dict[str, Any]) -> bool | list[str]:
    """Return the types of the layers that stay calls, or whether all of the user's layers do."""
    if not options["types"]:
        return bool(options["functions"])
    return [*(net.user_layers if options["functions"] else ()), *options["types"]]


def batch_of(text: str | None) -> str | int | None:
    """Return --batch as a number, or as the name of a symbolic size."""
    return int(text) if text is not None and text.isdigit() else text


def _inputs(net: Net, options: dict[str, Any], shapes: dict[str, tuple[int, ...]]) -> Any:
    """Return the inputs for the comparison, True for noise, or False for no comparison."""
    if options["no_verify"]:
        return False
    if not options["inputs"] and not options["seed"]:
        return True

    return feed(net, options["inputs"], shapes, options["seed"], preprocessing_of(options))


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


def _show(conversion: Conversion, options: dict[str, Any]) -> None:
    """Print the comparison of each output to stdout, and notes and files to stderr."""
    if options["as_json"]:
        echo(to_json({"model": str(options["model"]), **conversion.to_dict()}))
        return
    for note in conversion.notes:
        say(f"note: {note}", options["quiet"])
    for check in conversion.checks:
        echo(f"{check.label}: {check}, accepted by {check.accepted_by}")
    _show_nodes(conversion.nodes)
    files = ", ".join(str(f) for f in reversed(conversion.files))
    count = plural(len({c.name for c in conversion.checks if not c.part}), "output")
    verdict = f": {count}, run by {conversion.runs}, compared with the layers in NumPy"
    if not conversion.checks:
        verdict = f"; not compared with its source: {conversion.unchecked}"
    say(f"wrote {files}{verdict}", options["quiet"])
