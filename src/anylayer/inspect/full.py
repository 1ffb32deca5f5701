"""Full reports: the table of nodes with measured times, errors against NumPy, pictures, and the code of layers."""

from __future__ import annotations

import inspect
import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from anylayer.compile.inputs import input_arrays, input_types
from anylayer.compile.noise import noise
from anylayer.compile.plan import require_types
from anylayer.errors import AnyLayerError, InputError, nearest, need
from anylayer.graph import Graph
from anylayer.inspect.boxes import draw_detections
from anylayer.inspect.costs import Profile
from anylayer.inspect.drawing import has_detections, summary, to_image
from anylayer.inspect.figures import Change, Figures, LayerCode, Measured, Picture, figures_of
from anylayer.inspect.profile import folded_layers, profile_run
from anylayer.inspect.report import Report, make_report
from anylayer.inspect.verify import verify
from anylayer.libraries.pillow import png
from anylayer.network import Array, Network, TensorType
from anylayer.readers import load_reader, readers
from anylayer.runtime.model import Model
from anylayer.source import TracedNode

if TYPE_CHECKING:
    from anylayer.api import Net
    from anylayer.convert.conversion import Conversion


def full_report(
    net: Net,
    inputs: Mapping[str, Any] | None = None,
    *,
    engine: str = "auto",
    threads: int | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seconds: float = 0.5,
    compare: bool = True,
    blobs: Sequence[str] | None = None,
    images: Mapping[str, Array] | None = None,
    conversion: Conversion | None = None,
    seed: int = 0,
    progress: Callable[[str], None] = lambda stage: None,
) -> Report:
    """Return the report of a network with what can be measured of it. See Net.report for the arguments.

    images: the images (H, W, 3) in BGR order from which inputs were made. What cannot be measured is a gap of the
    report, with the reason: a layer without a definition, missing weights, an engine that is not installed.
    progress: is called with what is done next.
    """
    network = net.network
    types = input_types(network, shapes)
    if inputs is not None:
        inputs = input_arrays(network, inputs)
        types = {name: TensorType(array.shape, array.dtype) for name, array in inputs.items()}
    progress("tracing the nodes")
    traced: list[TracedNode] = []
    shapes = {name: t.shape for name, t in types.items() if t is not None}
    report = make_report(network, net.definitions, shapes, traced)
    report.measured = measured = Measured(code=_code(net, report))
    if conversion is not None:
        measured.change = _change(network, conversion)
    for name in blobs or ():
        values = [value for n in report.nodes for value, _ in n.outputs]
        need(name in values, f"{network.source}: there is no blob '{name}'{nearest(name, values)}", InputError)
    figures = {row.name: figures_of(t) for row, t in zip(report.nodes, traced)}
    with _gap(measured, "nothing was run: "):
        arrays = (
            inputs if inputs is not None else noise(network, net.definitions, require_types(network, types), seed)
        )
        progress(f"measuring the nodes on {'the fastest engine' if engine == 'auto' else engine}")
        ran = profile_run(net, arrays, engine, threads, seconds)
        measured.engine, measured.profile = ran.profile.engine, ran.profile
        _add_times(figures, ran.profile)
        _add_operators(figures, ran.graphs)
        maps = {name: name for name in (blobs if blobs is not None else chosen_maps(network, traced))}
        results: dict[str, Array] = {}
        if compare and measured.engine != "numpy":
            progress(f"comparing {measured.engine} with NumPy, node by node")
            with _gap(measured, "the engine was not compared with NumPy: "):
                checks = verify(net, arrays, measured.engine, value_names=maps, values=results, traced=traced)
                for check in checks:
                    figures[check.name].check = check
                measured.verified = True
        progress("drawing the pictures")
        left = {name: name for name in maps if name not in results and name not in ran.outputs}
        results |= {**_run(net, left, arrays, measured.engine), **ran.outputs}
        measured.pictures += input_pictures(network, arrays, images or {})
        measured.pictures += _pictures(network, maps, results, _seen_image(network, arrays))
    for row in report.nodes:
        row.figures = figures[row.name]
    return report


@contextmanager
def _gap(measured: Measured, what: str) -> Iterator[None]:
    """Turn an error inside into a gap of the report."""
    try:
        yield
    except AnyLayerError as error:
        measured.gaps.append(f"{what}{error}")


def _add_times(figures: Mapping[str, Figures], costs: Profile) -> None:
    """Give each node its time. Nodes that run as one have it at the one that stands for all."""
    for cost in costs.costs:
        if not cost.layers or cost.where in ("reorder", "call"):
            continue
        lead = figures[cost.layers[cost.lead]]
        lead.seconds = (lead.seconds or 0.0) + cost.seconds
        lead.limit, lead.arithmetic, lead.bandwidth = (
            costs.limit(cost),
            costs.arithmetic(cost),
            costs.bandwidth(cost),
        )
        lead.precision = next((p.precision for p in cost.parts if p.precision), lead.precision)
        for name in cost.layers if len(cost.layers) > 1 else ():
            figures[name].together = cost.layers
            figures[name].precision = lead.precision


def _run(net: Net, values: Mapping[str, str], arrays: Mapping[str, Array], engine: str) -> dict[str, Array]:
    """Return values inside the network, which an engine computes."""
    if not values:
        return {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "layer .* runs in Python", UserWarning)  # the rows say it
        shapes = {name: array.shape for name, array in arrays.items()}
        model = Model(net.network, net.definitions, values, engine=engine, shapes=shapes)
    return model({name: arrays[name] for name in model.inputs})


def _seen_image(network: Network, arrays: Mapping[str, Array]) -> Array | None:
    """Return the first input that is an image as the network gets it, (H, W, 3), or None."""
    maps = (_maps(x, network.layouts.get(name) == "NHWC") for name, x in arrays.items())
    channels = next((m for m in maps if m is not None and len(m) == 3), None)
    return None if channels is None else to_image(_stretch(channels), "picture")[0]


def _pictures(
    network: Network, maps: Iterable[str], results: Mapping[str, Array], image: Array | None
) -> Iterator[Picture]:
    """Yield the pictures of the outputs, and of other feature maps. Detections are drawn on `image`."""
    layouts = {value: node.layout for node in network.nodes for value in node.outputs}
    for public, value in network.outputs.items():
        if image is not None and has_detections(results[public]):
            yield _picture("output", public, results[public], *draw_detections(image, results[public]))
        else:
            yield picture("output", public, results[public], layouts.get(value, "") == "NHWC")
    for name in maps:
        if name not in network.outputs:
            yield picture("map", name, results[name], layouts.get(name, "") == "NHWC")


def _add_operators(figures: Mapping[str, Figures], graphs: Iterable[tuple[Graph, Graph]]) -> None:
    """Count the operators that are left of each node after the rewrite rules, and say where others went."""
    for before, after in graphs:
        for name in {o.scope for o in before.ops} & {*figures}:
            figures[name].compiled = dict(Counter(o.op for o in after.ops if o.scope == name))
        for into, names in folded_layers(before, {o.scope for o in after.ops}).items():
            for name in names:
                if name in figures:
                    figures[name].into = into


# ---------------------------------------------------------------------- code


def _code(net: Net, report: Report) -> list[LayerCode]:
    """Return the source of the classes that the user gave, with the reasons of host calls."""
    lines = []
    for type_, definition in net.user_layers.items():
        nodes = [n for n in report.nodes if n.type == type_]
        calls = tuple((n.name, n.reason) for n in nodes if n.where == "host")
        line, text = _source(definition.cls)
        named = re.escape(Path(definition.origin).name)
        marked = {int(m) for _, reason in calls for m in re.findall(rf"(?:^|[ /(]){named}:(\d+)", reason)}
        names = tuple(n.name for n in nodes)
        lines.append(LayerCode(type_, definition.origin, line, text, names, calls, tuple(sorted(marked))))
    return lines


def _source(cls: Any) -> tuple[int, str]:
    """Return the first line and the text of a class; (0, "") where its source is not available."""
    try:
        lines, first = inspect.getsourcelines(cls)
    except (OSError, TypeError):
        return 0, ""
    return first, "".join(lines)


# ---------------------------------------------------------------------- conversions


def _change(network: Network, conversion: Conversion) -> Change:
    """Return what a conversion changed."""
    return Change(
        conversion.format,
        [(str(path), path.stat().st_size) for path in conversion.files],
        _types_of(network),
        _types_in(conversion),
        conversion.to_dict()["outputs"],
        conversion.runs or f"nothing: {conversion.unchecked}",
        list(conversion.notes),
    )


def _types_in(conversion: Conversion) -> dict[str, int]:
    """Return how often each type of node occurs in the files; {} for a format that anylayer only writes."""
    if conversion.format not in readers():
        return {}
    written = load_reader(conversion.format).read(conversion.files[-1], None, user_types=frozenset())
    return _types_of(written)


def _types_of(network: Network) -> dict[str, int]:
    """Return how often each type of node occurs. A node without inputs that holds one array is a constant, which
    is not counted: formats differ in whether weights are nodes."""
    return dict(Counter(node.type for node in network.nodes if node.inputs or len(node.blobs) != 1))


_SIDE = 640
"""The largest side of a picture in pixels; larger ones are thinned out."""
_CHANNELS = 64
"""The number of channels of a feature map that are drawn."""
_TOP = 5
"""The number of largest values that are listed of a vector."""
_MAPS = 6
"""The number of feature maps that are chosen."""


def chosen_maps(network: Network, traced: Sequence[TracedNode]) -> list[str]:
    """Return the values to draw: the last feature map of each size, at most the last _MAPS of them.

    Maps with one channel are chosen only where there are no others. Outputs are drawn anyway.
    """
    last: dict[tuple[int, ...], str] = {}
    single: dict[tuple[int, ...], str] = {}
    for t in traced:
        for name, kind in zip(t.node.outputs, t.outputs):
            if kind is None or name in network.outputs.values() or t.is_constant:
                continue
            size = _map_size(kind, t.node.layout)
            if size is not None:
                usual = single if kind.shape[3 if t.node.layout == "NHWC" else 1] == 1 else last
                usual.pop(size, None)
                usual[size] = name
    return list((last or single).values())[-_MAPS:]


def _map_size(kind: TensorType, layout: str) -> tuple[int, ...] | None:
    """Return (height, width) of a value that is a feature map: rank 4, more than one pixel, known sizes."""
    if len(kind.shape) != 4 or not all(isinstance(d, int) for d in kind.shape):
        return None
    size = kind.shape[1:3] if layout == "NHWC" else kind.shape[2:]
    return size if min(size) > 1 else None


def input_pictures(network: Network, arrays: Mapping[str, Array], images: Mapping[str, Array]) -> list[Picture]:
    """Return a picture per input. `images` are the images (H, W, 3) in BGR order that inputs were made from."""
    pictures = []
    for name, array in arrays.items():
        if name in images:
            image = images[name]
            how = f"the image, {image.shape[1]}x{image.shape[0]}"
            pictures.append(_picture("input", name, array, image, how))
        else:
            pictures.append(picture("input", name, array, network.layouts.get(name) == "NHWC"))
    return pictures


def picture(role: str, name: str, array: Array, channels_last: bool) -> Picture:
    """Return a picture of the first sample of an array, or its largest values where it is not a map."""
    maps = _maps(array, channels_last)
    if maps is None:
        return _picture(role, name, array, None, "")
    try:
        if role == "input" and len(maps) == 3:
            image, _ = to_image(_stretch(maps), "picture")
            return _picture(role, name, array, image, "3 channels as blue, green, red, from the smallest value")
        shown = "tiles" if role == "map" and len(maps) > 1 else "auto"
        image, what = to_image(maps[:_CHANNELS] if shown == "tiles" else maps, shown)
    except InputError:  # values that are not classes
        return _picture(role, name, array, None, "")
    left = len(maps) - _CHANNELS
    what += f"; {left} more are not drawn" if shown == "tiles" and left > 0 else ""
    return _picture(role, name, array, image, what)


def _maps(array: Array, channels_last: bool) -> Array | None:
    """Return the first sample of a feature map as (C, H, W) without values that are not finite, else None."""
    if array.ndim == 4 and channels_last:
        array = array.transpose(0, 3, 1, 2)
    if array.ndim != 4 or array.size == 0 or min(array.shape[2:]) < 2 or array.dtype.kind not in "fiub":
        return None
    maps = array[0]
    step = max(1, -(-max(maps.shape[1:]) // _SIDE))
    thinned: Array = maps[:, ::step, ::step].astype(np.float32)
    return np.nan_to_num(thinned, copy=False, posinf=0.0, neginf=0.0)


def _stretch(maps: Array) -> Array:
    """Return maps scaled to 0..1."""
    low, high = float(maps.min()), float(maps.max())
    return (maps - low) / ((high - low) or 1.0)


def _picture(role: str, name: str, array: Array, image: Array | None, what: str) -> Picture:
    kind = str(TensorType(array.shape, array.dtype))
    if image is None:
        return Picture(role, name, kind, what, summary(array), top=_largest(array))
    step = max(1, -(-max(image.shape[:2]) // (2 * _SIDE)))
    image = image[::step, ::step]
    return Picture(role, name, kind, what, summary(array), png(image), (image.shape[1], image.shape[0]))


def _largest(array: Array) -> tuple[tuple[int, float], ...]:
    """Return the largest values of a first sample that is a vector, with their indices; ties by index."""
    array = array[0] if array.ndim > 1 else array
    long_axes = [d for d in array.shape if d > 1]
    if len(long_axes) != 1 or array.dtype.kind not in "fiu":
        return ()
    flat = array.ravel()
    return tuple((int(i), float(flat[i])) for i in np.argsort(-flat.astype(np.float64), kind="stable")[:_TOP])
