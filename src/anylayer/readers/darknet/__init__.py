"""The Darknet reader: from a .cfg file and a .weights file to a Network.

config.py   parses the sections and options of the .cfg file, and the tree of classes that an option names
weights.py  reads the .weights file, one sequence of numbers, in the order in which the layers ask for weights
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypedDict

import numpy as np

from anylayer.errors import FileError, NetworkError, at, need, need_one_of, within
from anylayer.layer import Definition, Layer, Registry
from anylayer.network import Network, Node, Preprocess, TensorType
from anylayer.readers import Option, options_of
from anylayer.readers._limits import MAX_NODES
from anylayer.readers._names import layer_place, unique
from anylayer.readers._recognize import describe
from anylayer.readers._values import AttributeValue, other_texts, parse_value
from anylayer.readers.darknet import weights as weights_file
from anylayer.readers.darknet.config import NET_OPTIONS, Section, parse, read_text, read_tree
from anylayer.source import TracedNode

WHAT = "a Darknet network (.cfg with .weights)"


class DarknetOptions(TypedDict, total=False):
    """The options of anylayer.read for Darknet networks, besides the dialect."""

    raw: Annotated[bool, Option("Return the maps that the last sections read, without decoding boxes.")]


OPTIONS = {
    "dialect": Option("The program that wrote the weights: pjreddie or alexeyab.", "dialect", "str | None"),
    **options_of(DarknetOptions),
}
_CONFIG = "a Darknet network (.cfg)"
Trace = Callable[..., Iterator[TracedNode]]
_INPUT = "data"
"""OpenCV's name of the input."""


def match(path: Path) -> bool:
    """Return whether a file is the .cfg file of a Darknet network, judged by its first section."""
    return path.is_file() and describe(path) == _CONFIG


def read(
    model: Path,
    weights: Path | None = None,
    *,
    user_types: frozenset[str] = frozenset(),
    dialect: str | None = None,
    raw: bool = False,
) -> Network:
    """Read a network without its weights, which `fill` reads. Raise FileError or NetworkError, with the line.

    dialect: the program that wrote the weights; InputError is raised for one that does not exist. raw: leave out
    the sections that decode boxes.
    """
    if dialect is not None:
        names = sorted(Registry.of("darknet").dialects())
        need_one_of(dialect, names, f"there is no dialect '{dialect}'", "dialects")
    with within(str(model)):
        what = describe(model)
        need(what == _CONFIG, f"this is {what or 'no text'}, expected {_CONFIG}", FileError)
        need(weights is None or weights.is_file(), f"there is no weights file {weights}", FileError)
        sections = parse(read_text(model), str(model))
        count = len(sections) - 1
        rule = f"it has {count} sections besides [net]; 1 to {MAX_NODES} are read"
        need(0 < count <= MAX_NODES, rule, NetworkError)
        if weights is not None and dialect is None:
            dialect = weights_file.fork(weights)
        return _network(sections, model, "" if weights is None else str(weights), dialect, raw)


def fill(network: Network, definitions: Mapping[str, Sequence[Definition]], trace: Trace) -> None:
    """Read the weights of a network. Raise FileError where the file ends too early or too late."""
    weights_file.fill(network, trace(network, network.nodes, definitions, network.inputs, lenient=True))


def _network(sections: list[Section], model: Path, weights: str, dialect: str | None, raw: bool) -> Network:
    """Return the network of the sections, of which the first is [net]. With `raw`, a section that decodes boxes is
    not in it, and its value is the map before it."""
    network = Network(
        model.stem, "darknet", {}, [], {}, source=str(model), weights=weights, weights_file=".weights",
        dtype=np.dtype(np.float32), dialect=dialect,
    )  # fmt: skip
    _add_input(network, sections[0])
    registry, counts, values = Registry.of("darknet"), dict[str, int](), list[str]()
    for i, section in enumerate(sections[1:]):
        definitions = registry.find(section.type)
        cls = definitions[0].layer_class if definitions else Layer
        name = (getattr(cls, "prefix", "") or section.type) + f"_{i}"
        name = unique(getattr(cls, "single", "") or name, counts)
        options = {key: parse_value(text) for key, text in section.options.items()}
        place = layer_place(name, section.type, str(model), section.line)
        with at(place):
            if "tree" in options:
                options["tree"] = read_tree(section.options["tree"], model)
            inputs = [values[j] if j >= 0 else _INPUT for j in _sources(options, i, getattr(cls, "sources", None))]
        if raw and getattr(cls, "decodes_boxes", False):
            values.append(inputs[0])
            continue
        if getattr(cls, "reads_image", False):
            inputs.append(_INPUT)
        lines = {f"options.{key}": section.lines[key] for key in options}
        texts = other_texts(options, section.options, "options")
        network.nodes.append(
            Node(name, section.type, inputs, [name], {"options": options}, place=place, lines=lines, texts=texts)
        )
        values.append(name)
    read = {value for node in network.nodes for value in node.inputs}
    network.outputs.update({name: name for name in values if name not in read})
    network.blobs.update({name: name for name in (_INPUT, *values)})
    return network


def _sources(options: dict[str, AttributeValue], index: int, names: tuple[str, ...] | None) -> list[int]:
    """Return the sections that section `index` reads: those of `layers`, or the one before and those of `from`.

    The two options are removed. names: those that the section must have; None if it may have both.
    """
    for name in names or ():
        need(name in options, f"parameter '{name}' is missing", NetworkError)
    given = [name for name in (("layers", "from") if names is None else names) if name in options]
    sources = [] if "layers" in given else [index - 1]
    for name in given:
        stated = options.pop(name)
        for number in stated if isinstance(stated, list) else [stated]:
            if not isinstance(number, int):
                raise NetworkError(f"'{name}' must be numbers of sections, got {number!r}")
            source = number + index if number < 0 else number
            rule = f"'{name}' names section {number}, but the {index} sections before this one begin with 0"
            need(0 <= source < index, rule, NetworkError)
            sources.append(source)
    return sources


def _add_input(network: Network, section: Section) -> None:
    """Add the input whose size [net] states, and how images become this input."""
    options = {name: parse_value(text) for name, text in section.options.items()}
    names = NET_OPTIONS[:3] if "inputs" not in options or {*NET_OPTIONS[:3]} & {*options} else ("inputs",)
    sizes = []
    for name in names:
        size = options.get(name)
        with at(f"{network.source}:{section.lines.get(name, section.line)}"):
            rule = f"[net] needs '{name}', an integer of at least 1, got '{section.options.get(name, '')[:40]}'"
            need(type(size) is int and size >= 1, rule, NetworkError)
        sizes.append(int(size) if isinstance(size, int) else 0)
    rule = f"[net] has inputs={section.options.get('inputs')}, but its sizes make {math.prod(sizes)} values"
    need(options.get("inputs", math.prod(sizes)) == math.prod(sizes), rule, NetworkError)
    network.inputs[_INPUT] = TensorType((1, *sizes))
    if len(sizes) == 1:
        return
    network.preprocess[_INPUT] = Preprocess(
        scale=1 / 255, source="Darknet: RGB from 0 to 1", gray=sizes[0] == 1,
        letterbox=section.options.get("letter_box", "0") != "0",
    )  # fmt: skip
    network.channel_orders[_INPUT] = "RGB"
