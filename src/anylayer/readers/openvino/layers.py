"""An IR's layers with their ports, and the edges between them: what all versions share."""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field

from anylayer.errors import FileError, NetworkError, at, need
from anylayer.readers.openvino.markup import Element

_MOST_LAYERS = 50_000
_MOST_DIMS = 32
OpenShape = tuple["int | None", ...]


@dataclass(slots=True, eq=False)
class Port:
    """A port of a layer. `shape` has None for open sizes; `value` is the name of what passes through it."""

    id: str
    shape: OpenShape
    precision: str
    names: tuple[str, ...] = ()
    value: str = ""
    source: tuple[Drawn, int] | None = None
    """For an input: the layer it comes from, and that layer's output."""


@dataclass(slots=True, eq=False)
class Drawn:
    """A layer as the file draws it."""

    element: Element
    id: str
    name: str
    type: str
    version: str
    precision: str
    place: str
    data: dict[str, str] = field(default_factory=dict)
    inputs: list[Port] = field(default_factory=list)
    outputs: list[Port] = field(default_factory=list)


def read_layers(root: Element, file: str) -> list[Drawn]:
    """The network's layers in computing order, connected, every output's `value` named.

    Raises FileError for what is missing or unreadable, NetworkError for layers that do not fit together.
    """
    parts = {part.tag: part for part in root.children}
    need("layers" in parts, "there is no <layers> in it", FileError)
    layers: dict[str, Drawn] = {}
    for element in parts["layers"].all("layer"):
        layer = _layer(element, file)
        with at(layer.place):
            need(layer.id not in layers, f"its id {layer.id} is taken by another layer", NetworkError)
        layers[layer.id] = layer
        need(len(layers) <= _MOST_LAYERS, f"it has more than {_MOST_LAYERS} layers", FileError)
    need(layers, "there is no layer in it", FileError)
    _connect(layers, parts["edges"].all("edge") if "edges" in parts else ())
    ordered = _ordered(list(layers.values()))
    _name(ordered)
    return ordered


def _layer(element: Element, file: str) -> Drawn:
    given = element.attributes
    for wanted in ("id", "type"):
        need(given.get(wanted), f"line {element.line}: a layer has no '{wanted}'", FileError)
    name = given.get("name") or f"{given['type']}_{given['id']}"
    place = f"{file}:{element.line}: layer '{name}' ({given['type']})"
    precision = given.get("precision", "")
    layer = Drawn(element, given["id"], name, given["type"], given.get("version", ""), precision, place)
    with at(place):
        layer.inputs = _ports(element.child("input"), precision)
        layer.outputs = _ports(element.child("output"), precision)
        ids = [port.id for port in [*layer.inputs, *layer.outputs]]
        need(len(set(ids)) == len(ids), f"its ports have the ids {', '.join(ids)}: one occurs twice", FileError)
    return layer


def _ports(side: Element | None, precision: str) -> list[Port]:
    ports = []
    for element in side.all("port") if side is not None else ():
        given = element.attributes
        need("id" in given, f"line {element.line}: a port has no 'id'", FileError)
        shape = tuple(_dim(d) for d in element.all("dim"))
        need(
            len(shape) <= _MOST_DIMS,
            f"port {given['id']} has {len(shape)} dims, {_MOST_DIMS} are the most",
            FileError,
        )
        names = tuple(split_names(given.get("names", "")))
        ports.append(Port(given["id"], shape, given.get("precision", precision), names))
    return ports


def split_names(names: str) -> list[str]:
    """Return the names of a tensor, which stand between commas. A comma of a name itself follows a backslash."""
    found = [""]
    for part in names.split(","):
        if found[-1].endswith("\\"):
            found[-1] += "," + part
        else:
            found.append(part)
    return [name.replace("\\,", ",") for name in found if name]


def _dim(element: Element) -> int | None:
    return size(element.text, f"line {element.line}")


def size(text: str, what: str) -> int | None:
    """A size of a shape: a whole number, or None for -1, ?, and for what lies between bounds (1..8)."""
    text = text.strip()
    if text in ("-1", "?", "") or ".." in text:
        return None
    need(
        text.isascii() and text.isdigit() and len(text) < 19,
        f"{what}: a size is a whole number, got '{text[:40]}'",
        FileError,
    )
    return int(text)


def _connect(layers: dict[str, Drawn], edges: Iterable[Element]) -> None:
    """Give every input port its source."""
    for edge in edges:
        given = edge.attributes
        with at(f"line {edge.line}"):
            ends = []
            for side in ("from", "to"):
                layer = layers.get(given.get(f"{side}-layer", ""))
                need(
                    layer is not None,
                    f"an edge has {side}-layer={given.get(f'{side}-layer')}, which is no layer's id",
                    NetworkError,
                )
                ends.append((layer, given.get(f"{side}-port", "")))
        (source, out), (target, into) = ends
        if source is None or target is None:
            continue
        output = _port(source, source.outputs, out, "output", edge.line)
        port = target.inputs[_port(target, target.inputs, into, "input", edge.line)]
        with at(target.place):
            need(port.source is None, f"two edges lead to its input port {into} (line {edge.line})", NetworkError)
        port.source = (source, output)
    for layer in layers.values():
        for port in layer.inputs:
            with at(layer.place):
                need(port.source is not None, f"no edge leads to its input port {port.id}", NetworkError)


def _port(layer: Drawn, ports: list[Port], id: str, what: str, line: int) -> int:
    for i, port in enumerate(ports):
        if port.id == id:
            return i
    known = ", ".join(p.id for p in ports) or "none"
    raise NetworkError(f"it has no {what} port {id} (line {line}); its {what} ports: {known}", layer.place)


def _ordered(layers: list[Drawn]) -> list[Drawn]:
    """The layers so that each follows those it reads, otherwise as in the file."""
    place = {id(layer): i for i, layer in enumerate(layers)}
    waiting = {id(layer): len(layer.inputs) for layer in layers}
    readers: dict[int, list[Drawn]] = {}
    for layer in layers:
        for port in layer.inputs:
            if port.source is not None:
                readers.setdefault(id(port.source[0]), []).append(layer)
    ready = [i for i, layer in enumerate(layers) if not layer.inputs]
    found: list[Drawn] = []
    while ready:
        layer = layers[heapq.heappop(ready)]
        found.append(layer)
        for reader in readers.get(id(layer), ()):
            waiting[id(reader)] -= 1
            if not waiting[id(reader)]:
                heapq.heappush(ready, place[id(reader)])
    if len(found) < len(layers):
        stuck = [layer for layer in layers if waiting[id(layer)]]
        names = ", ".join(f"'{layer.name}'" for layer in stuck[:5]) + (", ..." if len(stuck) > 5 else "")
        raise NetworkError(f"layers {names} read each other's outputs in a circle")
    return found


def _name(layers: list[Drawn]) -> None:
    """Name each layer and each value once: a layer by its name, a value by its tensor's name, else its layer's."""
    taken: set[str] = set()
    for layer in layers:
        layer.name = _unique(layer.name, taken)
    values: set[str] = set()
    for layer in layers:
        for i, port in enumerate(layer.outputs):
            own = layer.name if len(layer.outputs) == 1 else f"{layer.name}.{i}"
            port.value = _unique(next((n for n in port.names if n not in values), own), values)


def _unique(name: str, taken: set[str]) -> str:
    found, i = name, 1
    while found in taken:
        found, i = f"{name}_{i}", i + 1
    taken.add(found)
    return found
