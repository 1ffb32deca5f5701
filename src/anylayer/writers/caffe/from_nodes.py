"""Turn the nodes of a network that was read from Caffe into layers, with their params as the file has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from anylayer.errors import at, need
from anylayer.network import Network, Node, Preprocess, TensorType
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet


def _blob_of_values(network: Network) -> dict[str, str]:
    """Return the name of each value's blob, the array that layers pass on. A layer that works in place has one
    blob for its input and its output.

    It gets two if its input has other consumers: Caffe refuses to rewrite a blob that a Split has copied.
    """
    original: dict[str, str] = {}  # of the output of a layer in place: the value that the blob begins with
    consumers = Counter(name for node in network.nodes for name in node.inputs)
    for node in network.nodes:
        if node.in_place and node.inputs and node.outputs and consumers[node.inputs[0]] == 1:
            original[node.outputs[0]] = original.get(node.inputs[0], node.inputs[0])
    groups: dict[str, list[str]] = {}
    for value in [*network.inputs, *(v for node in network.nodes for v in node.outputs)]:
        groups.setdefault(original.get(value, value), []).append(value)
    in_file = {value: blob for blob, value in network.blobs.items()}
    names: dict[str, str] = {}
    taken: set[str] = set()
    for values in groups.values():
        # network.blobs names the last value of a blob
        name = next((in_file[v] for v in reversed(values) if v in in_file), values[-1])
        while name in taken:
            name += "_"
        taken.add(name)
        names.update(dict.fromkeys(values, name))
    return names


def input_layers(
    network: Network, types: Mapping[str, TensorType | None], names: Mapping[str, str], net: CaffeNet
) -> None:
    """Add the network's inputs: an Input layer for each, or the net's own fields in a fork without this layer.

    `types` maps an input to its type, None where it is unknown. `names` maps a value to its blob. The net's own
    fields cannot hold the preprocessing.
    """
    if net.dialect.legacy_inputs:
        for value, type_ in types.items():
            net.inputs[names.get(value, value)] = None if type_ is None else tuple(type_.shape)
        return
    for value, type_ in types.items():
        layer = CaffeLayer(names.get(value, value), "Input", [], [names.get(value, value)])
        if type_ is not None:
            layer.params["input_param"] = {"shape": {"dim": [int(d) for d in type_.shape]}}
        elif value in network.preprocess:
            layer.params["input_param"] = {}
        if value in network.preprocess:
            layer.rest.update(_transform(network.preprocess[value]))
        net.layers.append(layer)


def _transform(preprocess: Preprocess) -> dict[str, Any]:
    """Return the transform_param of an input's preprocessing. It cannot hold a mean image that is in no file."""
    values: dict[str, Any] = {}
    if preprocess.scale != 1:
        values["scale"] = preprocess.scale
    if preprocess.crop:
        values["crop_size"] = preprocess.crop
    if preprocess.mean_file:
        values["mean_file"] = preprocess.mean_file
    elif preprocess.mean is not None and preprocess.mean.ndim == 1:
        values["mean_value"] = [float(v) for v in preprocess.mean]
    if preprocess.gray:
        values["force_gray"] = True
    return {"transform_param": values} if values else {}


def _layer_of_node(node: Node, names: Mapping[str, str]) -> CaffeLayer:
    """Return the layer that a node was read from. `names` maps a value to its blob."""
    with at(node.place):
        _require_names(node.params)
    python = node.params.get("python_param")
    is_python = isinstance(python, Mapping) and python.get("layer") == node.type
    return CaffeLayer(
        node.name,
        "Python" if is_python else node.type,
        [names.get(v, v) for v in node.inputs],
        [names.get(v, v) for v in node.outputs],
        params=dict(node.params),
        blobs=list(node.blobs),
        rest=dict(node.settings),
        place=node.place,
        given=node.params,
    )


def _require_names(params: Mapping[str, Any]) -> None:
    """Raise an error for fields known only by a number or an extension's name: a prototxt cannot have them."""
    for name, value in params.items():
        need(name.isidentifier() and name.isascii(), f"field '{name}' has no name that a prototxt can have")
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Mapping):
                _require_names(inner)


def can_express(dialect: Dialect, node: Node) -> bool:
    """Return whether the dialect has the node's type and all fields that the node sets, and reads its inputs."""
    messages = {m: values for m, values in node.params.items() if isinstance(values, Mapping)}
    written = (f"{m}.{n}" for m, values in messages.items() for n in values)
    eltwise = messages.get("eltwise_param", {})
    is_pairwise = node.type == "Eltwise" and eltwise.get("operation", "SUM") in dialect.in_pairs
    reads_inputs = len(node.inputs) <= 2 or not is_pairwise
    return dialect.has(node.type) and not dialect.without.intersection(written) and reads_inputs


def net_from_nodes(
    network: Network,
    net: CaffeNet,
    types: Mapping[str, TensorType | None] | None = None,
    nodes: Sequence[Node] | None = None,
) -> CaffeNet:
    """Add the network's inputs and layers to `net` and return it. Layers that are in place in the file stay so.

    `types` replaces the types of the network's inputs, `nodes` replaces its nodes one by one.
    """
    names = _blob_of_values(network)
    input_layers(network, types or network.inputs, names, net)
    for node in network.nodes if nodes is None else nodes:
        add_node(net, node, names)
    return net


def add_node(net: CaffeNet, node: Node, names: Mapping[str, str]) -> CaffeLayer:
    """Append a node's layer. Add "_" to its name while an Input layer has it: Caffe needs different names."""
    layer = _layer_of_node(node, names)
    while layer.name in _input_layer_names(net):
        layer.name += "_"
    net.layers.append(layer)
    return layer


def _input_layer_names(net: CaffeNet) -> set[str]:
    """Return the names of the Input layers at the beginning of the net."""
    return {layer.name for layer in takewhile(lambda x: x.type == "Input", net.layers)}
