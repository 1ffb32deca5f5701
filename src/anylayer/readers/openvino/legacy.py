"""IR v2 to v7 (2018, 2019): a network of Caffe's, by another spelling."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anylayer.errors import FileError, LayerError, NetworkError, at, need
from anylayer.layer import Registry
from anylayer.network import Network, Node, Preprocess, TensorType
from anylayer.readers.openvino.layers import Drawn, read_layers, size
from anylayer.readers.openvino.legacy_layer import Legacy, attributes_of, blobs_of
from anylayer.readers.openvino.legacy_types import TYPES, refuse_namesake, translate, unknown_attributes
from anylayer.readers.openvino.markup import Element
from anylayer.readers.openvino.weights import Weights

_DIALECT = "openvino"
_INPUT = "input"


def read_legacy(root: Element, file: str, weights: Weights, user_types: frozenset[str]) -> Network:
    """The network of an IR of version 2 to 7, its layers spelled as Caffe's.

    A layer of an unknown type keeps its attributes, as {"data": {...}}, and its blobs, each one axis.
    """
    network = Network(
        name=root.attributes.get("name", ""), format="caffe", inputs={}, nodes=[], outputs={}, dialect=_DIALECT,
        source=file, weights=weights.file if weights.there else "", dtype=np.dtype(np.float32),
    )  # fmt: skip
    known = {*Registry.of("caffe").types()}
    precision = root.attributes.get("precision", "")
    layers = read_layers(root, file)
    for layer in layers:
        with at(layer.place):
            for port in layer.outputs:
                network.blobs[port.value] = port.value
                if port.shape and None not in port.shape:
                    network.declared[port.value] = TensorType(tuple(d or 0 for d in port.shape))
            if layer.type.lower() == _INPUT:
                _input(network, layer)
                continue
            legacy = _legacy(layer, weights, precision)
            if layer.type in user_types or layer.type not in TYPES:
                if layer.type in known and layer.type not in user_types:
                    raise refuse_namesake(legacy)
                _keep(legacy)
            else:
                _translate(legacy)
            network.nodes += legacy.nodes
    _outputs(network, layers)
    for element in root.all("pre-process"):
        _preprocess(network, element, weights)
    return network


def _input(network: Network, layer: Drawn) -> None:
    need(len(layer.outputs) == 1, f"gives one output, got {len(layer.outputs)}", NetworkError)
    port = layer.outputs[0]
    shape = tuple(d for d in port.shape if d is not None)
    need(len(shape) == len(port.shape) and math.prod(shape) > 0, f"its sizes must be positive, got {port.shape}")
    network.inputs[port.value] = TensorType(shape)


def _legacy(layer: Drawn, weights: Weights, precision: str) -> Legacy:
    inputs = [p.source[0].outputs[p.source[1]].value for p in layer.inputs if p.source is not None]
    return Legacy(layer, attributes_of(layer.element), blobs_of(layer, weights, precision), inputs)


def _keep(layer: Legacy) -> None:
    """A node as the file has it."""
    data = unknown_attributes(layer)
    layer.add(layer.type, {"data": data} if data else {}, blobs=list(layer.blobs.values()))


def _translate(layer: Legacy) -> None:
    try:
        translate(layer)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise LayerError(
            f"does not take the attributes {layer.attributes} ({type(error).__name__}: {error})"
        ) from error
    for node in layer.nodes:
        _check_outputs(node)


def _check_outputs(node: Node) -> None:
    need(len(node.outputs) > 0, "gives no output", NetworkError)


def _outputs(network: Network, layers: list[Drawn]) -> None:
    """What no layer reads, in alphabetical order."""
    read = {id(p.source[0].outputs[p.source[1]]) for layer in layers for p in layer.inputs if p.source is not None}
    ends = [port.value for layer in layers for port in layer.outputs if id(port) not in read]
    network.outputs.update({name: name for name in sorted(ends)})
    need(network.outputs, f"{network.source}: the network has no outputs", NetworkError)


def _preprocess(network: Network, element: Element, weights: Weights) -> None:
    """Means and scales of an input's channels."""
    given = element.attributes.get("reference-layer-name", "")
    name = given or next(iter(network.inputs), "")
    place = f"line {element.line}"
    need(name in network.inputs, f"{place}: <pre-process> is for '{name}', which is no input", NetworkError)
    known = network.inputs[name]
    channels = list(element.all("channel"))
    if not channels or known is None or len(known.shape) != 4:
        return
    means, scales = [], []
    for i, channel in enumerate(channels):
        need(channel.attributes.get("id", str(i)) == str(i), f"{place}: its channels must be in order", FileError)
        mean, scale = channel.child("mean"), channel.child("scale")
        means.append(_mean(mean, known.shape, element, weights))
        scales.append(1.0 if scale is None else _number(scale, "value"))
    need(
        len(channels) == known.shape[1],
        f"{place}: <pre-process> has {len(channels)} channels, input '{name}' has {known.shape[1]}",
        NetworkError,
    )
    need(
        len(set(scales)) == 1 and scales[0] != 0,
        f"{place}: one scale for all channels is supported, got {scales}",
        NetworkError,
    )
    need(len({np.shape(m) for m in means}) == 1, f"{place}: either values or pictures are means", FileError)
    array = np.array(means, np.float32)
    network.preprocess[name] = Preprocess(
        scale=1 / scales[0], mean=array if array.any() else None, source=f"<pre-process> of {network.source}"
    )
    network.notes.append(
        f"<pre-process> says how input '{name}' is made of a picture; arrays are taken as they are given"
    )


def _mean(mean: Element | None, shape: tuple[int, ...], element: Element, weights: Weights) -> Any:
    if mean is None:
        return 0.0
    if "value" in mean.attributes:
        return _number(mean, "value")
    place = f"line {mean.line}: the mean's"
    offset, length = (size(mean.attributes.get(n, ""), f"{place} '{n}'") for n in ("offset", "size"))
    need(offset is not None and length is not None, f"{place} 'offset' and 'size' are missing", FileError)
    kind = element.attributes.get("mean-precision", "FP32")
    return weights.array(offset or 0, length or 0, kind, shape[2:]).astype(np.float32)


def _number(element: Element, name: str) -> float:
    text = element.attributes.get(name, "")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    need(math.isfinite(value), f"line {element.line}: '{name}' must be a number, got '{text[:40]}'", FileError)
    return value
