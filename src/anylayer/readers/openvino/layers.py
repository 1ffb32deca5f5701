"""An IR's layers with their ports and the edges between them, which are the same in all versions."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from anylayer.errors import FileError, NetworkError, at, need
from anylayer.libraries.markup import Element
from anylayer.network import MAX_RANK
from anylayer.readers._limits import MAX_NODES
from anylayer.readers._names import layer_place, unique
from anylayer.readers._order import ordered

OpenShape = tuple["int | None", ...]
"""A shape in which a dynamic size is None."""


@dataclass(slots=True, eq=False)
class Port:
    """A port of a layer. `value` is the network's name of the value that passes through it."""

    id: str
    shape: OpenShape
    precision: str
    names: tuple[str, ...] = ()
    value: str = ""
    source: tuple[IrLayer, int] | None = None
    """For an input port: the producing layer, and the index of that layer's output."""


@dataclass(slots=True, eq=False)
class IrLayer:
    """A layer as the file describes it. `data` are the attributes of <data>, for IR v10 and later."""

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


def read_layers(root: Element, file: str) -> list[IrLayer]:
    """Return the network's layers in computing order. They are connected, and the `value` of each output is named.

    Raise FileError for what is missing or unreadable, and NetworkError for layers that cannot be connected.
    """
    parts = {part.tag: part for part in root.children}
    need("layers" in parts, "the network has no <layers> element", FileError)
    layers: dict[str, IrLayer] = {}
    for element in parts["layers"].all("layer"):
        layer = _layer(element, file)
        with at(layer.place):
            need(layer.id not in layers, f"another layer has the same id {layer.id}", NetworkError)
        layers[layer.id] = layer
        need(len(layers) <= MAX_NODES, f"the network has more than {MAX_NODES} layers", FileError)
    need(layers, "the network has no layers", FileError)
    _connect(layers, parts["edges"].all("edge") if "edges" in parts else ())
    ordered = _in_computing_order(list(layers.values()))
    _name(ordered)
    return ordered


def _layer(element: Element, file: str) -> IrLayer:
    attributes = element.attributes
    for key in ("id", "type"):
        need(attributes.get(key), f"line {element.line}: a layer has no '{key}'", FileError)
    name = attributes.get("name") or f"{attributes['type']}_{attributes['id']}"
    place = layer_place(name, attributes["type"], file, element.line)
    precision = attributes.get("precision", "")
    layer = IrLayer(
        element, attributes["id"], name, attributes["type"], attributes.get("version", ""), precision, place
    )
    with at(place):
        layer.inputs = _ports(element.child("input"), precision)
        layer.outputs = _ports(element.child("output"), precision)
        ids = [port.id for port in [*layer.inputs, *layer.outputs]]
        need(len(set(ids)) == len(ids), f"two of its ports have the same id: {', '.join(ids)}", FileError)
    return layer


def _ports(side: Element | None, precision: str) -> list[Port]:
    ports = []
    for element in side.all("port") if side is not None else ():
        attributes = element.attributes
        need("id" in attributes, f"line {element.line}: a port has no 'id'", FileError)
        shape = tuple(size(d.text, f"line {d.line}") for d in element.all("dim"))
        need(
            len(shape) <= MAX_RANK,
            f"port {attributes['id']} has {len(shape)} axes; the limit is {MAX_RANK}",
            FileError,
        )
        names = tuple(split_names(attributes.get("names", "")))
        ports.append(Port(attributes["id"], shape, attributes.get("precision", precision), names))
    return ports


def split_names(names: str) -> list[str]:
    """Return the names of a tensor, which commas separate. A backslash precedes a comma that belongs to a name."""
    parts = [""]
    for part in names.split(","):
        if parts[-1].endswith("\\"):
            parts[-1] += "," + part
        else:
            parts.append(part)
    return [name.replace("\\,", ",") for name in parts if name]


def size(text: str, what: str) -> int | None:
    """Return a size, or None for a dynamic one: -1, "?", "", or bounds such as "1..8".

    Raise FileError for other text. `what` names the size in the message.
    """
    text = text.strip()
    if text in ("-1", "?", "") or ".." in text:
        return None
    need(
        text.isascii() and text.isdigit() and len(text) < 19,
        f"{what}: a size must be an integer, got '{text[:40]}'",
        FileError,
    )
    return int(text)


def _connect(layers: dict[str, IrLayer], edges: Iterable[Element]) -> None:
    """Set the source of every input port."""
    for edge in edges:
        source, source_port = _end(layers, edge, "from")
        target, target_port = _end(layers, edge, "to")
        output = _port_index(source, source.outputs, source_port, "output", edge.line)
        port = target.inputs[_port_index(target, target.inputs, target_port, "input", edge.line)]
        with at(target.place):
            rule = f"two edges lead to its input port {target_port} (line {edge.line})"
            need(port.source is None, rule, NetworkError)
        port.source = (source, output)
    for layer in layers.values():
        for port in layer.inputs:
            with at(layer.place):
                need(port.source is not None, f"no edge leads to its input port {port.id}", NetworkError)


def _end(layers: dict[str, IrLayer], edge: Element, side: str) -> tuple[IrLayer, str]:
    """Return the layer and the port id at one end of an edge; `side` is "from" or "to"."""
    id_ = edge.attributes.get(f"{side}-layer")
    layer = layers.get(id_ or "")
    if layer is None:
        raise NetworkError(f"an edge has {side}-layer={id_}, but no layer has this id", f"line {edge.line}")
    return layer, edge.attributes.get(f"{side}-port", "")


def _port_index(layer: IrLayer, ports: list[Port], id: str, what: str, line: int) -> int:
    for i, port in enumerate(ports):
        if port.id == id:
            return i
    ids = ", ".join(p.id for p in ports) or "none"
    raise NetworkError(f"it has no {what} port {id} (line {line}); its {what} ports: {ids}", layer.place)


def _in_computing_order(layers: list[IrLayer]) -> list[IrLayer]:
    """Return the layers in computing order, which is the file's order where possible."""
    producers = {layer: {port.source[0] for port in layer.inputs if port.source is not None} for layer in layers}
    return ordered(producers, lambda layer: layer.name)


def _name(layers: list[IrLayer]) -> None:
    """Give layers and values unique names.

    A value has the name of its tensor, or of its layer if the tensor has no name.
    """
    names: dict[str, int] = {}
    for layer in layers:
        layer.name = unique(layer.name, names)
    values: dict[str, int] = {}
    for layer in layers:
        for i, port in enumerate(layer.outputs):
            default = layer.name if len(layer.outputs) == 1 else f"{layer.name}.{i}"
            port.value = unique(next((n for n in port.names if n not in values), default), values)
