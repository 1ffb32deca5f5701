"""IR v10 and v11: the network's nodes are OpenVINO's operations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from anylayer.errors import FileError, NetworkError, at, need, plural
from anylayer.graph.open_sizes import SIZES, StatedSizes
from anylayer.layer import Definition, Registry
from anylayer.libraries.markup import Element
from anylayer.network import CHANNEL_ORDERS, Array, Network, Node, Subgraph, TensorType
from anylayer.readers._limits import MAX_GRAPH_NESTING
from anylayer.readers._names import unique
from anylayer.readers._values import other_texts, parse_value
from anylayer.readers.openvino.layers import IrLayer, OpenShape, Port, read_layers, size, split_names
from anylayer.readers.openvino.weights import BinFile, dtype_of, has_dtype

_STORED = ("offset", "size", "element_type", "shape")
"""Attributes that locate a constant's values in the weights file."""


@dataclass(slots=True)
class _IRReading:
    """The state while a file is read. `constants` maps the names of constant values to their arrays."""

    network: Network
    weights: BinFile
    user_types: frozenset[str]
    constants: dict[str, Array] = field(default_factory=dict)
    output_names: dict[str, int] = field(default_factory=dict)

    def definitions(self, type_: str) -> list[Definition]:
        return [] if type_ in self.user_types else Registry.of("openvino").find(type_)

    def role(self, type_: str) -> str:
        definitions = self.definitions(type_)
        return str(getattr(definitions[0].cls, "role", "")) if definitions else ""


def read_ir(root: Element, file: str, weights: BinFile, user_types: frozenset[str]) -> Network:
    """Return the network of an IR of version 10 or 11."""
    network = Network(
        name=root.attributes.get("name", ""), format="openvino", inputs={}, nodes=[], outputs={}, source=file,
        weights=weights.file if weights.exists else "", weights_file=".bin",
    )  # fmt: skip
    reading = _IRReading(network, weights, user_types)
    _read_layers(reading, root)
    need(network.outputs, f"{file}: the network has no outputs", NetworkError)
    network.sizes = StatedSizes.from_json(_statement(root, SIZES))
    network.add_channel_orders(_statement(root, CHANNEL_ORDERS))
    return network


def _read_layers(reading: _IRReading, root: Element, depth: int = 0) -> dict[str, str]:
    """Add the layers below an element to the network. Return the values of its inputs and outputs by the ids of
    their layers.

    depth: how many networks are around it.
    """
    network, values = reading.network, dict[str, str]()
    for layer in read_layers(root, network.source):
        with at(layer.place):
            element = layer.element.child("data")
            layer.data = dict(element.attributes) if element is not None else {}
            role = reading.role(layer.type)
            for port in layer.outputs:
                network.blobs.update(dict.fromkeys((*port.names, port.value), port.value))
                _declare(network, port)
            if role == "input":
                _input(reading, layer)
                values[layer.id] = layer.outputs[0].value
            elif role == "sink":
                _output(reading, layer)
                values[layer.id] = next(reversed(network.outputs), "")
            else:
                network.nodes.append(_node(reading, layer))
                if role == "loop":
                    network.nodes[-1].params["data"] = _loop(reading, layer, depth + 1)
    return values


def _loop(reading: _IRReading, layer: IrLayer, depth: int) -> dict[str, Any]:
    """Return the params of a loop: its body, and how the body's inputs and outputs are connected."""
    need(depth <= MAX_GRAPH_NESTING, f"its loops are nested deeper than {MAX_GRAPH_NESTING}", NetworkError)
    body, ports, back = (layer.element.child(name) for name in ("body", "port_map", "back_edges"))
    if body is None or ports is None:
        raise FileError("the loop has no <body> or no <port_map>")
    network = Network(layer.name, "openvino", {}, [], {}, source=reading.network.source)
    values = _read_layers(_IRReading(network, reading.weights, reading.user_types), body, depth)
    network_inputs, network_outputs = list(network.inputs), list(network.outputs)

    def number(entry: Element, key: str, names: list[str]) -> int:
        """Return the index of the body's input or output to which an entry refers."""
        name = values.get(entry.attributes.get(key, ""), "")
        need(
            name in names, f"line {entry.line}: the body has no such layer {entry.attributes.get(key)}", FileError
        )
        return names.index(name)

    def port(entry: Element, side: list[Port]) -> int:
        """Return the index of the loop's own port to which an entry refers."""
        ids, id_ = [p.id for p in side], entry.attributes.get("external_port_id", "")
        need(id_ in ids, f"line {entry.line}: the loop has no port {id_}", FileError)
        return ids.index(id_)

    arguments, following, condition = [-1] * len(network_inputs), [-1] * len(network_inputs), -1
    results = [(-1, False)] * len(layer.outputs)
    for entry in ports.all("input"):
        need("axis" not in entry.attributes, "a loop over slices of an input is not supported", NetworkError)
        if entry.attributes.get("purpose") != "current_iteration":
            arguments[number(entry, "internal_layer_id", network_inputs)] = port(entry, layer.inputs)
    for entry in ports.all("output"):
        at_output = number(entry, "internal_layer_id", network_outputs)
        stated = {k: entry.attributes.get(k, v) for k, v in _ROWS.items()}
        need(stated == _ROWS, f"the rows of a loop must be stacked along axis 0, got {stated}", NetworkError)
        if entry.attributes.get("purpose") == "execution_condition":
            condition = at_output
        else:
            results[port(entry, layer.outputs)] = at_output, "axis" in entry.attributes
    for edge in back.all("edge") if back is not None else ():
        following[number(edge, "to-layer", network_inputs)] = number(edge, "from-layer", network_outputs)
    return {
        "body": Subgraph(network, []),
        "arguments": arguments,
        "following": following,
        "condition": condition,
        "results": results,
    }


_ROWS = {"axis": "0", "start": "0", "end": "-1", "stride": "1", "part_size": "1"}
"""How a loop stacks rows."""


def _statement(root: Element, key: str) -> str:
    """Return what anylayer's writer states under a key, or "" where it states nothing."""
    element: Element | None = root
    for name in ("rt_info", *key.split(".")):
        element = element.child(name) if element is not None else None
    return element.attributes.get("value", "") if element is not None else ""


def _declare(network: Network, port: Port) -> None:
    """Store the type of a port if the file states all of it.

    A port without sizes is left out, because it is either a scalar or a port whose shape the file omits.
    """
    if port.shape and has_dtype(port.precision) and None not in port.shape:
        network.declared[port.value] = TensorType(tuple(d or 0 for d in port.shape), dtype_of(port.precision))


def _input(reading: _IRReading, layer: IrLayer) -> None:
    need(len(layer.outputs) == 1, f"an input layer has {len(layer.outputs)} outputs, expected 1", NetworkError)
    need(not layer.inputs, f"an input layer has {plural(len(layer.inputs), 'input')}, expected none", NetworkError)
    name = layer.outputs[0].value
    shape = shape_of(layer.data.get("shape", ""))
    reading.network.add_input(name, shape, dtype_of(layer.data.get("element_type", "")))
    if _layout(layer) == "NHWC" and len(shape) == 4:
        reading.network.layouts[name] = "NHWC"


def _layout(layer: IrLayer) -> str:
    """Return the layout that an input's layer or port states, such as "NHWC", or "" if it states none."""
    output = layer.element.child("output")
    for holder in (layer.element, *(output.children if output is not None else ())):
        info = holder.child("rt_info")
        for entry in info.children if info is not None else ():
            if entry.attributes.get("name") == "layout":
                return re.sub(r"[^A-Z]", "", entry.attributes.get("layout", ""))
    return ""


def shape_of(text: str) -> OpenShape:
    """Return the shape that an attribute spells, such as "1,3,?,?".

    A dynamic size is None; "" is a scalar's shape.
    """
    text = text.strip().removeprefix("[").removesuffix("]").strip()
    need(text != "...", "its rank is dynamic, which is not supported", FileError)
    return tuple(size(part, "'shape'") for part in text.split(",")) if text else ()


def _output(reading: _IRReading, layer: IrLayer) -> None:
    need(len(layer.inputs) == 1, f"an output layer has {len(layer.inputs)} inputs, expected 1", NetworkError)
    need(not layer.outputs, f"an output layer has {len(layer.outputs)} outputs, expected none", NetworkError)
    source = layer.inputs[0].source
    if source is None:
        return
    value = source[0].outputs[source[1]].value
    names = split_names(layer.element.attributes.get("output_names", ""))
    reading.network.outputs[unique(names[0] if names else value, reading.output_names)] = value


def _node(reading: _IRReading, layer: IrLayer) -> Node:
    data = layer.data
    blobs: list[Array] = []
    if "offset" in data and "size" in data and not layer.inputs:
        blobs.append(_constant_values(reading.weights, data))
        if layer.outputs:
            reading.constants[layer.outputs[0].value] = blobs[0]
        data = {name: text for name, text in data.items() if name not in _STORED}
    inputs = [p.source[0].outputs[p.source[1]].value for p in layer.inputs if p.source is not None]
    if layer.type in reading.user_types:
        blobs += [reading.constants[name] for name in inputs if name in reading.constants]
        inputs = [name for name in inputs if name not in reading.constants]
    values: dict[str, Any] = {name: parse_value(text) for name, text in data.items()}
    return Node(
        name=layer.name,
        type=layer.type,
        inputs=inputs,
        outputs=[port.value for port in layer.outputs],
        params={"data": values, "version": layer.version} if layer.version else {"data": values},
        blobs=blobs,
        place=layer.place,
        texts=other_texts(values, data),
    )


def _constant_values(weights: BinFile, data: dict[str, str]) -> Array:
    """Return the values of a constant, which `data` locates in the weights file."""
    numbers = []
    for name in ("offset", "size"):
        number = size(data[name], f"'{name}'")
        if number is None:
            raise FileError(f"'{name}' must be an integer, got '{data[name][:40]}'")
        numbers.append(number)
    sizes = shape_of(data.get("shape", ""))
    shape = tuple(d for d in sizes if d is not None)
    rule = f"a constant's shape must be static, got '{data.get('shape')}'"
    need(len(shape) == len(sizes), rule, FileError)
    return weights.array(numbers[0], numbers[1], data.get("element_type", ""), shape)
