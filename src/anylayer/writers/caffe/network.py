"""A network that came from Caffe: its nodes as layers, with their params as the file has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from anylayer.errors import at, need
from anylayer.network import Network, Node, Preprocess, TensorType
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet


def blob_names(network: Network) -> dict[str, str]:
    """Return the blob that each value is: a layer that works in place has one blob for its input and its output.

    It keeps them apart where others read its input too: Caffe refuses a blob that is rewritten behind a Split.
    """
    first: dict[str, str] = {}
    readers = Counter(name for node in network.nodes for name in node.inputs)
    for node in network.nodes:
        if node.in_place and node.inputs and node.outputs and readers[node.inputs[0]] == 1:
            first[node.outputs[0]] = first.get(node.inputs[0], node.inputs[0])
    groups: dict[str, list[str]] = {}
    for value in [*network.inputs, *(v for node in network.nodes for v in node.outputs)]:
        groups.setdefault(first.get(value, value), []).append(value)
    known = {value: blob for blob, value in network.blobs.items()}
    named: dict[str, str] = {}
    taken: set[str] = set()
    for values in groups.values():
        name = next((known[v] for v in reversed(values) if v in known), values[-1])
        while name in taken:
            name += "_"
        taken.add(name)
        named.update(dict.fromkeys(values, name))
    return named


def input_layers(
    network: Network, types: Mapping[str, TensorType | None], names: Mapping[str, str], net: CaffeNet
) -> None:
    """The network's inputs, each by an Input layer, or as the network's own fields in a fork without one."""
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
    """The transform_param that makes a picture an input; without a mean image that no file holds."""
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


def node_layer(node: Node, names: Mapping[str, str]) -> CaffeLayer:
    """A node as the layer it was read from."""
    with at(node.place):
        _need_names(node.params)
    rest: dict[str, Any] = {}
    if any(node.loss_weights):
        rest["loss_weight"] = list(node.loss_weights)
    if node.phase != "TEST":
        rest["phase"] = node.phase
    own = node.params.get("python_param")
    by_class = isinstance(own, Mapping) and own.get("layer") == node.type
    return CaffeLayer(
        node.name,
        "Python" if by_class else node.type,
        [names.get(v, v) for v in node.inputs],
        [names.get(v, v) for v in node.outputs],
        dict(node.params),
        list(node.blobs),
        rest,
        node.place,
        node.params,
    )


def _need_names(params: Mapping[str, Any]) -> None:
    """Refuse fields that only a number or an extension's name is known of: no prototxt of Caffe has them."""
    for name, value in params.items():
        need(
            name.isidentifier() and name.isascii(),
            f"field '{name}' has no name that a prototxt can have",
        )
        for inner in value if isinstance(value, list) else [value]:
            if isinstance(inner, Mapping):
                _need_names(inner)


def takes(dialect: Dialect, node: Node) -> bool:
    """Whether the dialect has the node's type and the fields that it writes."""
    written = (f"{m}.{n}" for m, values in node.params.items() if isinstance(values, Mapping) for n in values)
    return dialect.has(node.type) and not dialect.without.intersection(written)


def network_net(
    network: Network,
    net: CaffeNet,
    types: Mapping[str, TensorType | None] | None = None,
    nodes: Sequence[Node] | None = None,
) -> CaffeNet:
    """Fill `net` with the network's nodes (or `nodes` in their places), in place where they are in the file."""
    names = blob_names(network)
    input_layers(network, types or network.inputs, names, net)
    for node in network.nodes if nodes is None else nodes:
        add_node(net, node, names)
    return net


def add_node(net: CaffeNet, node: Node, names: Mapping[str, str]) -> CaffeLayer:
    """Append a node's layer under a name of its own: an input's may be a node's too."""
    layer = node_layer(node, names)
    while layer.name in names_of_inputs(net):
        layer.name += "_"
    net.layers.append(layer)
    return layer


def names_of_inputs(net: CaffeNet) -> set[str]:
    """The names of the Input layers, which stand first."""
    return {layer.name for layer in takewhile(lambda x: x.type == "Input", net.layers)}
