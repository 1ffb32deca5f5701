"""Run a network on images, arrays or a folder of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from anylayer.cli.command import (
    F,
    TakesInputs,
    apply,
    echo,
    engine_option,
    input_option,
    json_option,
    network_options,
    random_weights_option,
    ray_option,
    read_net,
    say,
    shape_option,
    shapes_of,
    talk_options,
    threads_option,
    to_numbers,
    to_size,
)
from anylayer.cli.files import to_json
from anylayer.cli.inputs import ImageOptions, Loader, items_of
from anylayer.cli.progress import progress
from anylayer.cli.results import ShowOptions, json_data, lines, read_labels
from anylayer.cli.running import Runner
from anylayer.cli.targets import OutOption
from anylayer.cli.video import VideoRun, moving_input
from anylayer.compile.inputs import input_types
from anylayer.errors import InputError, need, plural
from anylayer.inspect.tables import parts_text
from anylayer.source import layer_notes

if TYPE_CHECKING:
    from anylayer import Net
    from anylayer.cli.inputs import ImageOptions, Item, Loaded
    from anylayer.cli.results import ShowOptions
    from anylayer.network import Array
    from anylayer.runtime.model import Model

CONVENTIONS: dict[str, dict[str, Any]] = {
    "tf": {"mean": "127.5", "scale": 1 / 127.5, "swap": True},
    "torch": {"mean": "123.675,116.28,103.53", "scale": (1 / 58.395, 1 / 57.12, 1 / 57.375), "swap": True},
    "caffe": {"mean": "103.939,116.779,123.68", "scale": 1.0, "swap": False},
}
"""The modes of preprocess_input in keras.applications (imagenet_utils.py): mean, scale, and whether it is RGB."""

_LISTED = 20
"""The number of written files that are listed."""


def image_options(function: F) -> F:
    """Add the options that say how images become inputs."""
    return apply(
        function,
        [
            click.option(
                "--size",
                callback=to_size,
                metavar="WxH",
                help="Resize images to this size; 'keep' does not resize [the input's size].",
            ),
            click.option(
                "--mean", metavar="B,G,R|FILE", help="Subtract this, in the order of the input's channels."
            ),
            click.option(
                "--scale",
                callback=to_numbers,
                metavar="NUMBER",
                help="Multiply by this, for example 1/255; or one factor per channel.",
            ),
            click.option("--swap-rb", "swap", is_flag=True, help="Use RGB order instead of BGR."),
            click.option(
                "--crop", "cover", is_flag=True, help="Keep the aspect ratio: cover the size and crop the center."
            ),
            click.option("--gray", is_flag=True, help="Convert to one channel."),
            click.option(
                "--pixels",
                type=click.Choice(list(CONVENTIONS)),
                help="Preprocess like keras.applications: tf (RGB in -1..1), torch (RGB, ImageNet's mean and "
                "standard deviation), caffe (BGR minus a mean).",
            ),
        ],
    )


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
                help="Write an image (.png, ...), a video (.mp4), .npy, .npz, .json, or into a folder. "
                "{name} in the path stands for the input's file, {blob} for the output.",
            ),
            click.option(
                "--show",
                type=click.Choice(["auto", "top", "detections", "map", "classes", "picture", "tiles", "values"]),
                default="auto",
                help="How to show outputs [auto: by their shape].",
            ),
            click.option(
                "--top",
                type=click.IntRange(1),
                default=5,
                metavar="K",
                help="The number of classes with the highest scores to show [5].",
            ),
            click.option(
                "--labels",
                type=click.Path(path_type=Path),
                help="A file with the names of the classes, one per line.",
            ),
            click.option(
                "--threshold", type=float, default=0.5, help="The lowest score of a detection that is shown [0.5]."
            ),
            json_option,
        ],
    )


@click.command(
    cls=TakesInputs,
    epilog="\b\nExample:\n  anylayer run deploy.prototxt weights.caffemodel -l layers.py -i a.jpg -o edges.png",
)
@network_options
@input_option(
    "an image, .npy, .npz, a folder of them, values [1, 2], a video, or a camera's number", required=True
)
@image_options
@result_options
@engine_option()
@threads_option
@click.option(
    "--batch",
    type=click.IntRange(1),
    metavar="N",
    help="The number of images to run together [the file's batch size].",
)
@click.option("--frames", type=click.IntRange(1), metavar="N", help="Stop after N frames of a video.")
@click.option(
    "--fps",
    type=click.FloatRange(0.01, 1000),
    metavar="R",
    help="The frames per second of the written video [those of the input].",
)
@random_weights_option
@shape_option
@ray_option(is_flag_too=True)
@talk_options
def command(**given: Any) -> None:
    """Run a network and show its outputs: the classes with the highest scores, detections, or a summary of maps.

    Images are preprocessed like OpenCV's blobFromImage: resized, in BGR order, (image - mean) * scale. A file's
    transform_param is used unless one of --mean, --scale, --swap-rb, --crop or --gray is given. A line on stderr
    says what was done. Results go to stdout, everything else to stderr.
    """
    net = read_net(given)
    labels = read_labels(given["labels"]) if given["labels"] else ()
    shapes = shapes_of(net, given["shapes"])
    types = input_types(net.network, shapes)
    loader = Loader(net, types, preprocessing_of(given), shapes)
    channels_last = any(map(loader.channels_last, types))
    options = ShowOptions(given["show"], given["top"], given["threshold"], labels, channels_last)
    targets = [OutOption(out) for out in given["outs"]]
    runner = Runner(net, loader, given["engine"], given["threads"], given["blobs"], given["batch"])
    presenter = Presenter(runner, options, targets, quiet=given["quiet"], as_json=given["as_json"])
    moving = moving_input(given["inputs"], list(types), given["outs"])
    items = items_of(given["inputs"], list(types)) if moving is None else []
    if given["random_weights"]:
        first = loader.load(items[0]).arrays if items and None in types.values() else {}
        net.fill(shapes={name: array.shape for name, array in first.items()} | shapes)
    if moving is not None:
        need(given["ray_address"] is None, "frames of a video run on this machine; leave out --ray", InputError)
        damaged = VideoRun(presenter, moving, given["frames"] or 0, given["fps"] or 0.0).run()
        click.get_current_context().exit(1 if damaged else 0)
    if given["ray_address"] is not None:
        from anylayer.cli.onray import run_on_ray

        failed = run_on_ray(loader, items, given, progress(len(items), given["quiet"]))
        click.get_current_context().exit(1 if failed else 0)
    for target in targets:
        target.check(items)
    if presenter.run(items):
        click.get_current_context().exit(1)


def preprocessing_of(given: dict[str, Any]) -> ImageOptions:
    """Return the preprocessing that the options for images state."""
    return ImageOptions(given["size"], **_pixels(given), cover=given["cover"], gray=given["gray"])


def _pixels(given: dict[str, Any]) -> dict[str, Any]:
    """Return mean, scale and order of channels, from --pixels or from the single options."""
    own = {name: given[name] for name in ("mean", "scale", "swap")}
    if given["pixels"] is None:
        return own
    if any(own.values()):
        raise click.UsageError("--pixels replaces --mean, --scale and --swap-rb; give either it or them")
    return CONVENTIONS[given["pixels"]]


@dataclass
class Presenter:
    """Runs items, shows and writes their results, and reports what was done."""

    runner: Runner
    options: ShowOptions
    targets: Sequence[OutOption]
    quiet: bool = False
    as_json: bool = False

    def run(self, items: Sequence[Item]) -> int:
        """Run the items: results go to stdout and files, the report to stderr. Return how many were skipped."""
        for line in self.runner.loader.describe(items[0]):
            say(line, self.quiet)
        kept: list[tuple[str, dict[str, Array]]] = []
        data: list[dict[str, Any]] = []
        written: list[str] = []
        skipped = 0
        joining = [t for t in self.targets if t.holds_all_inputs]
        with progress(len(items), self.quiet) as (advance, tell, warn):
            for item, loaded, outputs in self.runner.results(items):
                if loaded is None or isinstance(outputs, str):
                    warn(f"skipped: {outputs}")
                    data.append({"input": item.source or item.name, "error": outputs})
                    skipped += 1
                else:
                    data.append(self.show(item, loaded, outputs, len(items) > 1, tell))
                    for target in self.targets:
                        if not target.holds_all_inputs:
                            written += target.write(item, loaded, outputs, self.options)
                    if joining:
                        kept.append((item.source or item.name, outputs))
                advance()
        for target in joining:
            written += target.write_all(kept) if kept else []
        self.report(written)
        if self.as_json:
            echo(to_json(self._json_data(data, written)))
        if skipped:
            say(f"{skipped} of {plural(len(items), 'input')} could not be read and {_were(skipped)} skipped")
        return skipped

    def show(
        self, item: Item, loaded: Loaded, outputs: dict[str, Array], several: bool, tell: Callable[[str], None]
    ) -> dict[str, Any]:
        place = loaded.place
        if self.as_json:
            shown = {name: json_data(name, a, self.options, place) for name, a in outputs.items()}
            return {"input": item.source or item.name, "outputs": shown}
        if several:
            tell(f"{item.source or item.name}:")
        for name, array in outputs.items():
            for line in lines(name, array, self.options, place):
                tell(line)
        return {}

    def report(self, written: Sequence[str]) -> None:
        """Print the report to stderr: written files, engine and time, layers, notes."""
        runner, model = self.runner, self.runner.model
        if model is None or self.quiet:
            return
        for line in written[:_LISTED]:
            say(line)
        if len(written) > _LISTED:
            say(f"... and {plural(len(written) - _LISTED, 'more file')}")
        measured = ", ".join(f"{n} {s * 1e3:.3g} ms" for n, s in sorted(model.timings.items(), key=lambda t: t[1]))
        runs = f", median of {len(runner.seconds)} runs" if len(runner.seconds) > 1 else ""
        engine = model.engine + (f" (measured: {measured})" if measured else "")
        say(f"engine {engine}: {runner.milliseconds:.3g} ms per frame{runs}")
        if model.parts:
            say(parts_text(model.parts))
        for line in filter(None, (runner.why_single, runner.why_padded)):
            say(line)
        for line in layer_lines(runner.net, model):
            say(line)
        remarks = layer_notes(model.plan.nodes) if model.plan is not None else []
        for note in (*runner.net.network.notes, *remarks):
            say(f"note: {note}")

    def _json_data(self, data: list[dict[str, Any]], written: Sequence[str]) -> dict[str, Any]:
        runner, model = self.runner, self.runner.model
        network = runner.net.network
        return {
            "model": network.source,
            "weights": network.weights,
            "engine": model.engine if model else None,
            "parts": [{"engine": e, "layers": names} for e, names in (model.parts if model else ())],
            "measured_ms": {n: s * 1e3 for n, s in model.timings.items()} if model else {},
            "ms_a_frame": runner.milliseconds,
            "batch": runner.batch_size,
            "layers": {t: d.origin for t, d in runner.net.user_layers.items()},
            "native_layers": [
                {"node": n, "type": t, "library": x} for n, t, x in (model.native_layers if model else ())
            ],
            "host_calls": [{"node": n, "type": t, "reason": r} for n, t, r in (model.host_calls if model else ())],
            "results": data,
            "written": [w.removeprefix("wrote ").split(": ")[0] for w in written],
        }


def _were(number: int) -> str:
    return "was" if number == 1 else "were"


def layer_lines(net: Net, model: Model) -> Iterator[str]:
    """Yield lines that say which layers came from the user's files, and which run in Python and why."""
    host = model.host_calls
    if net.user_layers:
        parts = []
        for type_, definition in net.user_layers.items():
            nodes = [n for n in net.network.nodes if n.type == type_]
            parts.append(f"{type_} ({Path(definition.origin).name}, {plural(len(nodes), 'node')})")
        own = {name for name, type_, _ in host if type_ in net.user_layers}
        tail = f"in Python: {plural(len(own), 'node')}" if own else "none of them runs in Python"
        if model.engine == "numpy":
            tail = "run in NumPy like all layers"
        yield f"layers from your files: {', '.join(parts)}; {tail}"
    for name, type_, library in model.native_layers:
        yield f"layer '{name}' ({type_}) runs in {Path(library).name}"
    for name, type_, reason in host:
        yield f"layer '{name}' ({type_}) runs in Python: {reason}"
