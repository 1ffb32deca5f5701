"""Transfer the weights of a Keras network to the layers of a Caffe network with the same names.

The weights get Caffe's layout: kernels are (out, in, h, w). Dense weights are (out, in); after a Flatten their
columns are in the order (C, H, W). Batch normalization becomes a BatchNorm and the Scale that reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, InputError, LayerError, at, given, nearest, need
from anylayer.network import Array, Network, Node, Shape
from anylayer.readers import keras
from anylayer.readers.keras.weights import NamedLayer, layer_named

_EPSILON = 1e-5
"""The default epsilon of Caffe's BatchNorm."""


@dataclass(frozen=True, slots=True)
class Moved:
    """A Keras layer whose weights were transferred. `targets` maps Caffe layers to the shapes of their weights."""

    name: str
    type: str
    targets: Mapping[str, Sequence[Shape]]

    def __str__(self) -> str:
        return f"{self.name} ({self.type}) -> " + ", ".join(
            f"{name} {' '.join(str(list(s)) for s in shapes)}" for name, shapes in self.targets.items()
        )


@dataclass(slots=True)
class Transfer:
    """The result of transfer_weights.

    `unmatched` are the source's layers with weights for which there is no Caffe layer of the same name. `empty`
    are the Caffe layers of types with weights that have none.
    """

    moved: list[Moved] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [str(m) for m in self.moved]
        if self.unmatched:
            lines.append(f"no layer of this name in Caffe: {', '.join(self.unmatched)}")
        if self.empty:
            lines.append(f"without weights in Caffe: {', '.join(self.empty)}")
        return "\n".join([*lines, *self.notes])


def transfer(giving: Network, taking: Network, shapes: Mapping[str, Shape], blog_compat: bool = False) -> Transfer:
    """Copy the weights of a Keras network to the layers of a Caffe network with the same names.

    shapes: those of the values of the Keras network. blog_compat: see caffe.transfer_weights.

    Raises InputError where no name matches, and LayerError where weights do not fit.
    """
    for what, net, format_name in (("source", giving, "Keras"), ("target", taking, "Caffe")):
        rule = f"the {what} is a {net.format} network, expected a {format_name} network"
        need(net.format == format_name.lower(), rule, InputError)
    pair = _Pair(giving, taking, shapes, blog_compat)
    report = Transfer()
    for node in giving.nodes:
        layer = pair.by_name.get(node.name)
        if not node.blobs:
            continue
        if layer is None:
            report.unmatched.append(node.name)
            continue
        with at(f"layer '{node.name}' ({node.type} to {layer.type})"):
            text = "weights of this type cannot be transferred; write the whole network: net.write(...)"
            filled = given(_RULES.get(node.type), text)(pair, node, layer)
            for name, blobs in filled.items():
                pair.by_name[name].blobs = [np.ascontiguousarray(b, np.float32) for b in blobs]
        written = {name: [np.asarray(b).shape for b in blobs] for name, blobs in filled.items()}
        report.moved.append(Moved(node.name, node.type, written))
    names = ", ".join(pair.by_name)
    need(
        report.moved,
        f"no layer with weights has the name of a Caffe layer; the Caffe layers are {names}",
        InputError,
    )
    report.empty = [n.name for n in taking.nodes if n.type in _HAVE_WEIGHTS and not n.blobs]
    if blog_compat:
        report.notes.append(
            "batch normalization has both epsilons (blog_compat), an error of up to half a percent"
        )
    return report


def shapes_in(net: Any) -> dict[str, Shape]:
    """Return the known shapes of values, by name. `net` is a network from anylayer.read."""
    if not hasattr(net, "inspect"):
        return {}
    computed = {name: tuple(t.shape) for node in net.inspect().nodes for name, t in node.outputs if t is not None}
    inputs = {name: tuple(t.shape) for name, t in net.network.inputs.items() if t is not None}
    return {**inputs, **computed}


def fill_by_name(target: Any, file: Path, as_net: Callable[[Network], Any]) -> None:
    """Give the layers of a Caffe network the weights of the Keras layers with the same names in a file.

    target: the network, from anylayer.read without weights. file: a whole Keras model, or weights alone, of which
    the layers of the prototxt say what they are. as_net: makes of a network what anylayer.read returns.

    Raises FileError unless each Caffe layer gets its weights, and each layer of the file is used.
    """
    network: Network = target.network
    with keras.weights_alone(file) as stored:
        if stored is None:
            source = as_net(keras.read(file, None, user_types=frozenset()))
            giving, shapes = source.network, shapes_in(source)
        else:
            giving, shapes = _network_like(network, stored, shapes_in(target))
        unnamed = [str(s) for s in stored or () if not any(layer_named([s], n.name) for n in network.nodes)]
        report = transfer(giving, network, shapes) if giving.nodes else Transfer()
    need(
        not (unnamed or report.unmatched or report.empty),
        "the weights are matched by the names of layers. In the file, but not in the prototxt: "
        f"{'; '.join(unnamed or report.unmatched) or 'none'}. In the prototxt, but without weights: "
        f"{', '.join(report.empty) or 'none'}. Rename the layers of the prototxt",
        FileError,
    )
    network.weights = str(file)
    types = {node.type for node in giving.nodes} if stored is not None else set()
    network.notes += [f"no configuration of Keras is given: {rule}" for type_, rule in _ASSUMED if type_ in types]


_ASSUMED = (
    ("BatchNormalization", "batch normalization has the prototxt's eps (Keras' default is 0.001, Caffe's 1e-05)"),
    ("Flatten", "the rows of an InnerProduct after a map are in the order of Keras' Flatten (H, W, C)"),
)
"""What a file without a configuration does not say, by the Keras type that needs it."""


def _network_like(
    target: Network, stored: Sequence[NamedLayer], shapes: Mapping[str, Shape]
) -> tuple[Network, dict[str, Shape]]:
    """Return a Keras network of the layers with weights that a Caffe network has, and the shapes of its values."""
    nodes = []
    maps: dict[str, Shape] = {}
    for layer in target.nodes:
        match = layer_named(stored, layer.name)
        if match is None:
            continue
        with at(f"layer '{layer.name}' ({layer.type})"):
            blobs = match.weights.arrays()
            type_, config = _keras_type(layer, blobs)
            inputs = list(layer.inputs)
            is_flat = type_ == "Dense" or len(shapes.get(inputs[0], ())) == 2
            shape = _map_before(target, inputs[0], shapes, set()) if is_flat else None
            if shape is not None:
                n, c, h, w = shape
                maps[f"{layer.name}/map"] = n, h, w, c
                nodes.append(Node("", "Flatten", [f"{layer.name}/map"], [f"{layer.name}/flat"]))
                inputs = [f"{layer.name}/flat"]
            nodes.append(Node(layer.name, type_, inputs, list(layer.outputs), {"config": config}, blobs))
    return Network("", "keras", {}, nodes, {}), maps


def _map_before(target: Network, value: str, shapes: Mapping[str, Shape], seen: set[str]) -> Shape | None:
    """Return the shape (N, C, H, W) of the map of which a value has the elements in order; None where there is
    none, or where their order is that of Keras, too. Raise LayerError if several maps are concatenated."""
    producer = next((n for n in target.nodes if value in n.outputs), None)
    shape = given(shapes.get(value), "the shape of its input is not known; give the network's input shape")
    is_new = value not in seen
    seen.add(value)
    if not is_new or (len(shape) > 2 and 1 in (shape[1], math.prod(shape[2:]))):
        return None
    if producer is not None and (
        producer.type in _CAFFE_KEEPS or (producer.type == "Reshape" and len(shape) == 2)
    ):
        return _map_before(target, producer.inputs[0], shapes, seen)
    if producer is not None and producer.type == "Permute":
        need(_param(producer, "permute_param", "order", []) == [0, 2, 3, 1], f"{_ORDER}{producer.name}'")
        return None
    need(len(shape) in (2, 4), f"the order of its rows in Keras is not known for an input of shape {list(shape)}")
    if len(shape) == 4:
        return shape
    if producer is not None and producer.type not in _KERAS_TYPES:
        maps = [_map_before(target, name, shapes, seen) for name in producer.inputs]
        need(not any(maps), f"{_ORDER}{producer.name}'")
    return None


_CAFFE_KEEPS = ("Flatten", "Dropout", "ReLU", "ELU", "Sigmoid", "TanH", "PReLU", "BatchNorm", "Scale", "Softmax")
"""Caffe's types that keep the order of elements."""
_ORDER = "the order of its rows in Keras is not known after layer '"


def _keras_type(layer: Node, blobs: Sequence[Array]) -> tuple[str, dict[str, Any]]:
    """Return the Keras type whose weights a Caffe layer takes, and what its configuration must say."""
    type_ = given(_KERAS_TYPES.get(layer.type), "the weights of a layer of this type cannot be matched by name")
    if type_ == "BatchNormalization":
        rule = "3 arrays in the file: without the configuration it is unknown whether gamma or beta is missing"
        need(len(blobs) != 3, rule)
        both = len(blobs) == 4
        epsilon = _param(layer, "batch_norm_param", "eps", _EPSILON)
        return type_, {"scale": both, "center": both, "epsilon": epsilon}
    need(len(blobs) <= 2, f"has {len(blobs)} arrays in the file, expected a kernel and a bias")
    kernel = blobs[0]
    is_fitting = type_ == "PReLU" or (kernel.ndim == 2 if type_ == "Dense" else kernel.ndim > 2)
    need(is_fitting, f"its first array in the file has shape {list(kernel.shape)}, which is not that of a kernel")
    if type_ == "Conv2D" and kernel.ndim == 4:
        group = _param(layer, "convolution_param", "group", 1)
        outputs = kernel.shape[2] * kernel.shape[3]
        if group == kernel.shape[2] and _param(layer, "convolution_param", "num_output", 0) == outputs:
            return "DepthwiseConv2D", {}
    return type_, {}


@dataclass(slots=True)
class _Pair:
    """The networks of a transfer. `shapes` are those of the source's values, `by_name` the target's layers."""

    source: Network
    target: Network
    shapes: Mapping[str, Shape]
    blog_compat: bool
    by_name: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.by_name = {node.name: node for node in self.target.nodes}

    def producer(self, value: str) -> Node | None:
        """Return the source's node that produces a value."""
        return next((n for n in self.source.nodes if value in n.outputs), None)

    def consumer(self, value: str, type_: str) -> Node | None:
        """Return the target's layer of this type that reads a value."""
        return next((n for n in self.target.nodes if value in n.inputs and n.type == type_), None)


TransferRule = Callable[[_Pair, Node, Node], dict[str, list[Array]]]


def _config(node: Node) -> Mapping[str, Any]:
    return node.params.get("config", {})


def _param(layer: Node, message: str, name: str, default: Any) -> Any:
    return layer.params.get(message, {}).get(name, default)


def _with_bias(layer: Node, message: str, weights: Array, blobs: Sequence[Array], outputs: int) -> list[Array]:
    """Return the weights, and a bias if the Caffe layer has one. `outputs` is the number of output channels."""
    expected = _param(layer, message, "num_output", outputs)
    need(expected == outputs, f"has {outputs} outputs, but the Caffe layer has num_output={expected}")
    if _param(layer, message, "bias_term", True):
        return [weights, blobs[0] if blobs else np.zeros(outputs, np.float32)]
    need(not blobs, "has a bias, but the Caffe layer has bias_term: false")
    return [weights]


def _convolution(pair: _Pair, node: Node, layer: Node) -> dict[str, list[Array]]:
    """Transpose the kernel (kh, kw, in, out) to (out, in, kh, kw), or (kh, kw, out, in) to (in, out, kh, kw)."""
    is_transposed = node.type == "Conv2DTranspose"
    _need_type(layer, "Deconvolution" if is_transposed else "Convolution")
    kernel = node.blobs[0]
    weights = kernel.transpose(kernel.ndim - 1, kernel.ndim - 2, *range(kernel.ndim - 2))
    outputs = weights.shape[is_transposed]
    return {layer.name: _with_bias(layer, "convolution_param", weights, node.blobs[1:], outputs)}


def _depthwise(pair: _Pair, node: Node, layer: Node) -> dict[str, list[Array]]:
    """Transpose the kernel from (kh, kw, in, multiplier) to (in * multiplier, 1, kh, kw)."""
    _need_type(layer, "Convolution", "ConvolutionDepthwise", "DepthwiseConvolution")
    kernel = node.blobs[0]
    height, width, channels, times = kernel.shape
    weights = kernel.transpose(2, 3, 0, 1).reshape(channels * times, 1, height, width)
    if layer.type == "Convolution":
        group = _param(layer, "convolution_param", "group", 1)
        need(group == channels, f"is depthwise over {channels} channels, but the Caffe layer has group={group}")
    return {layer.name: _with_bias(layer, "convolution_param", weights, node.blobs[1:], len(weights))}


def _dense(pair: _Pair, node: Node, layer: Node) -> dict[str, list[Array]]:
    _need_type(layer, "InnerProduct")
    kernel = node.blobs[0]
    shape = _shape_before_flatten(pair, node.inputs[0], set())
    if shape is not None and len(shape) == 3:
        height, width, channels = shape
        need(
            height * width * channels == len(kernel),
            f"its flattened input {list(shape)} has {height * width * channels} values, but its weights have "
            f"{len(kernel)} rows",
        )
        kernel = kernel.reshape(height, width, channels, -1).transpose(2, 0, 1, 3).reshape(len(kernel), -1)
    weights = kernel if _param(layer, "inner_product_param", "transpose", False) else kernel.T
    return {layer.name: _with_bias(layer, "inner_product_param", weights, node.blobs[1:], kernel.shape[1])}


_KEEP_SHAPE = ("Dropout", "SpatialDropout2D", "GaussianNoise", "Activation", "ReLU", "LeakyReLU", "ELU", "Softmax")


def _shape_before_flatten(pair: _Pair, value: str, seen: set[str]) -> Shape | None:
    """Return the shape (H, W, C) that was flattened before a value; None where nothing was, or channels-first.
    Raise LayerError if something else than elementwise layers follows."""
    seen.add(value)
    while (producer := pair.producer(value)) is not None:
        if producer.type in ("Flatten", "Reshape"):
            text = "the shape before Flatten is not known; give the network's input shape"
            shape = given(pair.shapes.get(producer.inputs[0]), text)
            return None if _config(producer).get("data_format") == "channels_first" else shape[1:]
        if producer.type not in _KEEP_SHAPE:
            is_weighted = bool(producer.blobs) and producer.type not in ("BatchNormalization", "PReLU")
            values = [] if is_weighted else [v for v in producer.inputs if v not in seen]
            shapes = [_shape_before_flatten(pair, v, seen) for v in values]
            need(not any(_is_map(s) for s in shapes), f"{_ORDER}{producer.name}'")
            return None
        value = producer.inputs[0]
    return None


def _is_map(shape: Shape | None) -> bool:
    return shape is not None and len(shape) > 1 and shape[-1] > 1 and math.prod(shape[:-1]) > 1


def _need_no_flattened_map(pair: _Pair, node: Node, size: int) -> None:
    shape = _shape_before_flatten(pair, node.inputs[0], set())
    need(
        shape is None or not _is_map(shape) or math.prod(shape) != size,
        "its weights after Flatten are in the order (H, W, C) and cannot be transferred",
    )


def _batch_norm(pair: _Pair, node: Node, layer: Node) -> dict[str, list[Array]]:
    """Split gamma (unless scale=False), beta (unless center=False), mean and variance into BatchNorm and Scale."""
    _need_type(layer, "BatchNorm")
    config = _config(node)
    blobs = list(node.blobs)
    channels = len(blobs[-1])
    _need_no_flattened_map(pair, node, channels)
    gamma = blobs.pop(0) if config.get("scale", True) else np.ones(channels, np.float32)
    beta = blobs.pop(0) if config.get("center", True) else np.zeros(channels, np.float32)
    need(len(blobs) == 2, f"has {len(node.blobs)} weights, which does not fit to scale and center of its config")
    mean, variance = blobs
    epsilon = float(config.get("epsilon", 1e-3))
    theirs = float(_param(layer, "batch_norm_param", "eps", _EPSILON))
    added = epsilon if pair.blog_compat else epsilon - theirs
    filled = {layer.name: [mean, variance + np.float32(added), np.ones(1, np.float32)]}
    scale = pair.consumer(layer.outputs[0], "Scale") or pair.by_name.get(f"{layer.name}_sc")
    if scale is None:
        plain = bool((gamma == 1).all() and (beta == 0).all())
        need(plain, "has gamma and beta, but no Scale layer reads the Caffe layer")
        return filled
    biased = _param(scale, "scale_param", "bias_term", False)
    need(biased or not beta.any(), f"has beta, but the Scale layer '{scale.name}' does not have bias_term: true")
    return {**filled, scale.name: [gamma, beta] if biased else [gamma]}


def _prelu(pair: _Pair, node: Node, layer: Node) -> dict[str, list[Array]]:
    _need_type(layer, "PReLU")
    alpha = node.blobs[0]
    need(
        alpha.size == alpha.shape[-1],
        f"has slopes {list(alpha.shape)}; Caffe's PReLU has one per channel (shared_axes=[1, 2] in Keras)",
    )
    shared = _param(layer, "prelu_param", "channel_shared", False)
    _need_no_flattened_map(pair, node, alpha.size)
    return {layer.name: [alpha.reshape(()) if shared else alpha.reshape(-1)]}


def _need_type(layer: Node, *types: str) -> None:
    if layer.type not in types:
        raise LayerError(f"needs {' or '.join(types)} in Caffe, got {layer.type}{nearest(layer.type, types)}")


_RULES: dict[str, TransferRule] = {
    **dict.fromkeys(("Conv1D", "Conv2D", "Conv3D", "Convolution2D", "Conv2DTranspose"), _convolution),
    "DepthwiseConv2D": _depthwise,
    "Dense": _dense,
    "BatchNormalization": _batch_norm,
    "PReLU": _prelu,
}
_KERAS_TYPES = {
    "Convolution": "Conv2D",
    "ConvolutionDepthwise": "DepthwiseConv2D",
    "DepthwiseConvolution": "DepthwiseConv2D",
    "Deconvolution": "Conv2DTranspose",
    "InnerProduct": "Dense",
    "BatchNorm": "BatchNormalization",
    "PReLU": "PReLU",
}
_HAVE_WEIGHTS = frozenset(
    ("Convolution", "Deconvolution", "InnerProduct", "BatchNorm", "Scale", "PReLU", "ConvolutionDepthwise")
)
