"""IR v2 to v7 (2018 and 2019): its layers are Caffe's, spelled differently."""

from __future__ import annotations

import math
from contextlib import suppress

import numpy as np

from anylayer.errors import AnyLayerError, FileError, LayerError, NetworkError, at, need
from anylayer.layer import Registry
from anylayer.libraries.markup import Element
from anylayer.network import Array, Network, Preprocess, Shape, TensorType
from anylayer.readers._values import other_texts
from anylayer.readers.openvino.layers import IrLayer, read_layers, size
from anylayer.readers.openvino.legacy_layer import LegacyLayer, attributes_of, blobs_of
from anylayer.readers.openvino.legacy_types import TYPES, ambiguous_type, translate
from anylayer.readers.openvino.weights import BinFile

_DIALECT = "openvino"
_INPUT = "input"


def read_legacy(
    root: Element, file: str, weights: BinFile, user_types: frozenset[str], kernel_types: frozenset[str]
) -> Network:
    """Return the network of an IR of version 2 to 7, translated to Caffe's layers.

    A layer of an unknown type keeps its attributes, as {"data": {...}}, and its blobs, each with one axis. So does
    one of `kernel_types`, unless it has no blobs and is a single layer of the same type in Caffe.
    """
    network = Network(
        name=root.attributes.get("name", ""), format="caffe", inputs={}, nodes=[], outputs={}, dialect=_DIALECT,
        source=file, weights=weights.file if weights.exists else "", weights_file=".bin",
        dtype=np.dtype(np.float32),
    )  # fmt: skip
    types = {*Registry.of("caffe").types()}
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
            legacy = _legacy_layer(layer, weights, precision)
            if layer.type in kernel_types:
                legacy = _translated_alone(legacy)
            elif layer.type in user_types or layer.type not in TYPES:
                if layer.type in types and layer.type not in user_types:
                    raise ambiguous_type(legacy)
                _keep(legacy)
            else:
                _translate(legacy)
            network.nodes += legacy.nodes
    _outputs(network, layers)
    for element in root.all("pre-process"):
        _preprocess(network, element, weights)
    return network


def _input(network: Network, layer: IrLayer) -> None:
    need(len(layer.outputs) == 1, f"an input layer has {len(layer.outputs)} outputs, expected 1", NetworkError)
    port = layer.outputs[0]
    shape = tuple(d for d in port.shape if d is not None)
    need(len(shape) == len(port.shape) and math.prod(shape) > 0, f"its sizes must be positive, got {port.shape}")
    network.inputs[port.value] = TensorType(shape)


def _legacy_layer(layer: IrLayer, weights: BinFile, precision: str) -> LegacyLayer:
    inputs = [p.source[0].outputs[p.source[1]].value for p in layer.inputs if p.source is not None]
    return LegacyLayer(layer, attributes_of(layer.element), blobs_of(layer, weights, precision), inputs)


def _keep(layer: LegacyLayer) -> None:
    """Add the layer as one node with the file's type and attributes."""
    data = {name: layer.value(name) for name in layer.attributes}
    layer.add(layer.type, {"data": data} if data else {}, blobs=list(layer.blobs.values()))
    layer.nodes[-1].blob_names = list(layer.blobs)
    layer.nodes[-1].texts = other_texts(data, layer.attributes)


def _translated_alone(layer: LegacyLayer) -> LegacyLayer:
    """Return the layer translated to one Caffe node of the same type without blobs, with the attributes as the
    file spells them. If the translation is something else, return the layer as a node with the file's own
    attributes.
    """
    if not layer.blobs and layer.type in TYPES:
        copy = LegacyLayer(layer.layer, layer.attributes, layer.blobs, layer.inputs)
        with suppress(AnyLayerError):
            _translate(copy)
            if [node.type for node in copy.nodes] == [layer.type] and copy.nodes[0].inputs == layer.inputs:
                copy.nodes[0].texts = dict(layer.attributes)
                return copy
    _keep(layer)
    return layer


def _translate(layer: LegacyLayer) -> None:
    try:
        translate(layer)
    except AnyLayerError:
        raise
    except Exception as error:
        raise LayerError(
            f"its attributes {layer.attributes} are not valid ({type(error).__name__}: {error})"
        ) from error
    for node in layer.nodes:
        need(node.outputs, "it has no outputs", NetworkError)


def _outputs(network: Network, layers: list[IrLayer]) -> None:
    """Add the values without a consumer to the network's outputs, in alphabetical order."""
    read = {id(p.source[0].outputs[p.source[1]]) for layer in layers for p in layer.inputs if p.source is not None}
    ends = [port.value for layer in layers for port in layer.outputs if id(port) not in read]
    network.outputs.update({name: name for name in sorted(ends)})
    need(network.outputs, f"{network.source}: the network has no outputs", NetworkError)


def _preprocess(network: Network, element: Element, weights: BinFile) -> None:
    """Store the mean and the scale of an input's channels. An input that is not a picture is ignored."""
    stated = element.attributes.get("reference-layer-name", "")
    name = stated or next(iter(network.inputs), "")
    place = f"line {element.line}"
    need(name in network.inputs, f"{place}: <pre-process> names '{name}', which is not an input", NetworkError)
    type_ = network.inputs[name]
    channels = list(element.all("channel"))
    if not channels or type_ is None or len(type_.shape) != 4:
        return
    means, scales = [], []
    for i, channel in enumerate(channels):
        need(channel.attributes.get("id", str(i)) == str(i), f"{place}: its channels must be in order", FileError)
        mean, scale = channel.child("mean"), channel.child("scale")
        means.append(_mean(mean, type_.shape, element, weights))
        scales.append(1.0 if scale is None else _number(scale, "value"))
    need(
        len(channels) == type_.shape[1],
        f"{place}: <pre-process> has {len(channels)} channels, but input '{name}' has {type_.shape[1]}",
        NetworkError,
    )
    need(
        len(set(scales)) == 1 and scales[0] != 0,
        f"{place}: only one scale for all channels is supported, got {scales}",
        NetworkError,
    )
    rule = f"{place}: the means must be numbers for all channels, or pictures for all channels"
    need(len({np.shape(m) for m in means}) == 1, rule, FileError)
    array = np.array(means, np.float32)
    network.preprocess[name] = Preprocess(
        scale=1 / scales[0], mean=array if array.any() else None, source=f"<pre-process> of {network.source}"
    )
    network.notes.append(
        f"<pre-process> describes how input '{name}' is made from a picture; arrays are used as they are given"
    )


def _mean(mean: Element | None, shape: Shape, element: Element, weights: BinFile) -> float | Array:
    """Return the mean of one channel: a number, or an array (H, W) from the weights file."""
    if mean is None:
        return 0.0
    if "value" in mean.attributes:
        return _number(mean, "value")
    place = f"line {mean.line}: the mean's"
    offset, length = (size(mean.attributes.get(n, ""), f"{place} '{n}'") for n in ("offset", "size"))
    if offset is None or length is None:
        raise FileError(f"{place} 'offset' and 'size' are missing")
    kind = element.attributes.get("mean-precision", "FP32")
    return weights.array(offset, length, kind, shape[2:]).astype(np.float32)


def _number(element: Element, name: str) -> float:
    text = element.attributes.get(name, "")
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    need(math.isfinite(value), f"line {element.line}: '{name}' must be a number, got '{text[:40]}'", FileError)
    return value
