"""Answer HTTP requests with networks, on Ray Serve."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    Command,
    engine_option,
    make_command,
    open_shape_option,
    random_weights_option,
    ray_option,
    read_net,
    reading_options,
    say,
    threads_option,
)
from anylayer.cli.image_options import image_options, preprocessing_of
from anylayer.cli.inputs import Loader
from anylayer.compile.inputs import input_types
from anylayer.errors import InputError, need
from anylayer.images.preprocess import as_input, prepare

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.network import Preprocess
    from anylayer.serve.served import Settings

_WEIGHTS = (".caffemodel", ".caffemodel.h5", ".weights.h5", ".bin", ".npz")
"""A file with one of these suffixes that follows a model has its weights."""


@make_command(
    "anylayer serve deploy.prototxt weights.caffemodel -l layers.py\n"
    "  curl -H 'Content-Type: image/jpeg' --data-binary @a.jpg \\\n"
    "    localhost:8000/v2/models/deploy/infer",
    Command,
)
@click.argument("models", nargs=-1, required=True, metavar="[NAME=]MODEL [WEIGHTS] ...")
@reading_options
@image_options
@random_weights_option
@open_shape_option
@engine_option()
@threads_option
@click.option("--host", default="127.0.0.1", help="The address to listen on; 0.0.0.0 for all [127.0.0.1].")
@click.option("--port", type=click.IntRange(1, 65535), default=8000, help="The port to listen on [8000].")
@click.option("--replicas", type=click.IntRange(1), default=1, metavar="N", help="Processes per network [1].")
@click.option(
    "--max-batch",
    type=click.IntRange(1),
    default=8,
    metavar="N",
    help="The largest number of samples, of several requests, that run as one batch [8].",
)
@click.option(
    "--max-size",
    type=click.IntRange(1, 4096),
    default=64,
    metavar="MB",
    help="The largest request that is accepted [64].",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(1, 65535),
    metavar="PORT",
    help="Serve metrics as Prometheus text at this port of this machine.",
)
@ray_option(is_flag_too=False)
def command(**options: Any) -> None:
    """Serve networks until the command is interrupted, on Ray Serve (pip install 'ray[serve,data]').

    Clients of the Open Inference Protocol (V2) work with it: tritonclient[http], KServe. A picture alone may be
    the body of a request, with Content-Type image/...; it is preprocessed as in `run`. The name of a network is
    the name of its file without the suffix.
    """
    networks = [_network(name, model, weights, options) for name, model, weights in models_of(options["models"])]
    _need_shapes_used(networks, options)
    try:
        from anylayer.libraries.ray import cluster, listening
        from anylayer.serve.deployment import serving
        from anylayer.serve.served import need_servable
    except ModuleNotFoundError as error:
        if error.name is not None and error.name.startswith("anylayer"):
            raise
        raise InputError("serve needs: pip install 'ray[serve,data]'") from None
    need_servable(networks)
    weights = sum(blob.nbytes for net, _ in networks for node in net.network.nodes for blob in node.blobs)
    least = len(networks) * options["replicas"] * (options["threads"] or 1)
    asked = options["host"], options["port"]
    if options["ray_address"] is None:
        _need_free_port(*asked)
    need(
        options["ray_address"] is None or options["metrics_port"] is None,
        "--metrics-port is for a cluster that this command starts; the one of --ray serves its own metrics",
        InputError,
    )
    with (
        cluster(options["ray_address"], least=least, weights=2 * weights, metrics_port=options["metrics_port"]),
        serving(networks, *asked, options["replicas"], partial(say, quiet=options["quiet"])) as measured,
    ):
        for name, statistics in measured.items():
            why = f" ({statistics['why']})" if statistics["why"] else ""
            batches = f"batches of at most {max(1, statistics['batch'])}{why}"
            say(f"model '{name}': engine {statistics['engine']}, {batches}", options["quiet"])
        host, port = listening() or asked
        if (host, port) != asked:
            say("Ray Serve runs on this cluster already; it listens where it did before", options["quiet"])
        say(f"serving at http://{host}:{port}/v2", options["quiet"])
        try:
            while True:
                time.sleep(3600)
        finally:
            say("stopping, after the requests that are being computed", options["quiet"])


def models_of(words: Sequence[str]) -> list[tuple[str, Path, Path | None]]:
    """Return the name, model and weights of each network. A file of weights follows its model."""
    models: list[tuple[str, Path, Path | None]] = []
    for word in words:
        name, equals, path = word.partition("=")
        if not equals or Path(word).exists():
            name, path = "", word
        if models and not name and models[-1][2] is None and path.lower().endswith(_WEIGHTS):
            models[-1] = (*models[-1][:2], Path(path))
        else:
            model = Path(path)
            models.append((name or model.name.split(".")[0], model, None))
    return models


def _network(name: str, model: Path, weights: Path | None, options: dict[str, Any]) -> tuple[Net, Settings]:
    """Read a network, and return it with the settings that it is served with."""
    from anylayer.serve.served import Settings

    net = read_net({**options, "model": model, "weights": weights})
    shapes, free = _shapes(net, options["shapes"])
    types = input_types(net.network, shapes)
    if options["random_weights"]:
        net.fill(shapes=shapes)
    decode = {}
    for input_name in list(types)[:1]:
        recipe_options = preprocessing_of(options)
        if free.get(input_name, frozenset()) - {0} and not _states_size(net.network.preprocess.get(input_name)):
            recipe_options = replace(recipe_options, size=recipe_options.size or "keep")
        loader = Loader(net, types, recipe_options)
        try:
            dtype = net.network.input_dtype(input_name)
            decode[input_name] = partial(
                decoded, loader.recipe(input_name), loader.channels_last(input_name), dtype
            )
        except InputError:  # the input is not an image
            if any(options[option] for option in ("size", "mean", "scale", "swap", "cover", "gray", "pixels")):
                raise
    for input_name, recipe in decode.items():
        say(f"model '{name}', input '{input_name}': {recipe.args[0]}", options["quiet"])
    largest = options["max_size"] << 20
    return net, Settings(
        name, options["engine"], options["threads"], shapes, free, options["max_batch"], decode, largest
    )


def _states_size(preprocess: Preprocess | None) -> bool:
    """Return whether a file's preprocessing gives an image another size."""
    is_mean_image = preprocess is not None and (
        preprocess.mean_file or (preprocess.mean is not None and preprocess.mean.ndim == 3)
    )
    return preprocess is not None and bool(preprocess.size or preprocess.crop or is_mean_image)


def decoded(recipe: Any, channels_last: bool, dtype: Any, data: bytes) -> Any:
    """Return the input that an encoded picture makes, of the network's dtype and with a batch axis."""
    from anylayer.images.files import decode_image

    x, _ = prepare(decode_image(data), recipe)
    return as_input(x, channels_last, dtype)


def _shapes(
    net: Net, shape_options: Sequence[tuple[str, tuple[int | str, ...]]]
) -> tuple[dict[str, tuple[int, ...]], dict[str, frozenset[int]]]:
    """Return the --shape options that this network has, and the axes whose sizes requests choose."""
    names = list(net.network.inputs)
    shapes: dict[str, tuple[int, ...]] = {}
    free: dict[str, frozenset[int]] = {}
    for name, shape in shape_options:
        if not name:
            need(len(names) == 1, f"--shape needs the name of an input: {', '.join(names)}", InputError)
        input_name = name or names[0]
        if input_name not in names:
            continue
        kind = net.network.inputs[input_name]
        axes = frozenset(i for i, d in enumerate(shape) if isinstance(d, str))
        sizes = [
            d
            if isinstance(d, int)
            else kind.shape[i]
            if kind is not None and i < len(kind.shape)
            else 1
            if i == 0
            else 64
            for i, d in enumerate(shape)
        ]
        shapes[input_name], free[input_name] = tuple(sizes), axes
    return shapes, free


def _need_shapes_used(networks: Sequence[tuple[Net, Settings]], options: dict[str, Any]) -> None:
    names = {name for net, _ in networks for name in net.network.inputs}
    for name, _ in options["shapes"]:
        need(not name or name in names, f"--shape: no network has an input '{name}'", InputError)


def _need_free_port(host: str, port: int) -> None:
    """Raise InputError where another program listens."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((host, port))
        except OSError as error:
            raise InputError(f"cannot listen on {host}:{port}: {error.strerror}; give another --port") from None
