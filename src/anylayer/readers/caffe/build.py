"""From a file's blocks, which are upgraded to the current form, to a Network."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, NetworkError, at, need, plural
from anylayer.layer import Definition, Registry
from anylayer.network import Array, Network, Node, TensorType
from anylayer.protobuf.schema import Schema
from anylayer.protobuf.tree import Block
from anylayer.readers._limits import MAX_NODES
from anylayer.readers._names import unique
from anylayer.readers.caffe.blobs import StoredLayer, assign_blobs, shared_parameters
from anylayer.readers.caffe.fields import GENERIC, absent, check_net, params
from anylayer.readers.caffe.preprocess import preprocess
from anylayer.readers.caffe.rules import State, phase_of, takes_part
from anylayer.readers.caffe.wiring import (
    Draft,
    Version,
    connect,
    drop_training,
    name_versions,
    notes_on_rewritten_blobs,
)

_OUTPUTS_OF_LAYERS = ("opencv",)
"""Dialects in which a layer's tops are outputs of the network only if none of its tops is consumed."""


@dataclass(slots=True)
class Options:
    """The user's options for reading a network."""

    state: State = field(default_factory=State)
    dialect: str | None = None
    user_types: frozenset[str] = frozenset()
    schema: Schema | None = None
    needs_match: bool = True
    """Whether a weights file without any layer of the network is refused."""


@dataclass(slots=True)
class FileLayer:
    """A layer of a file, which may be one that the network leaves out.

    `node` has its name, type, params, weights and values. It is the network's own node where there is one.
    `bottoms` and `tops` are the file's names of the node's inputs and outputs. `types` are the types of an input's
    or data layer's tops. `shared` maps the index of a weight to the name under which layers share it.
    """

    node: Node
    bottoms: list[str]
    tops: list[str]
    role: str = ""
    types: list[TensorType | None] = field(default_factory=list)
    shared: dict[int, str] = field(default_factory=dict)


@dataclass(slots=True)
class Built:
    """A network, and the file's layers. `nodes` are the network's, `weights` those of layers with some."""

    network: Network
    drafts: list[Draft]
    nodes: dict[Draft, Node]
    weights: Mapping[Draft, list[Array]]
    options: Options

    def layers(self) -> list[FileLayer]:
        """Return every layer of the file that takes part, in computing order."""
        return [self._layer(draft) for draft in self.drafts]

    def _layer(self, draft: Draft) -> FileLayer:
        node = self.nodes.get(draft)
        if node is None:
            node = _node(draft, self.options)
            node.blobs = self.weights.get(draft, [])
        types = _input_types(draft, self.options) if draft.is_input else []
        shared = {index: name for index, name, _ in shared_parameters(draft)}
        return FileLayer(node, draft.bottoms, draft.tops, draft.role, types, shared)


def build(net: Block, stored: Sequence[StoredLayer], weights: str, options: Options) -> Built:
    """Return the network of a file's top-level block, with the weights of `stored`.

    `weights` is the name of the weights file. Raise FileError, NetworkError or LayerError.
    """
    ignored = check_net(net)
    count = len(net.all("layer"))
    rule = f"{net.file}: the network has {count} layers; the limit is {MAX_NODES}"
    need(count <= MAX_NODES, rule, FileError)
    layers, left_out = _drafts(net, options)
    blobs = connect(layers, left_out, str(options.state))
    network = Network(
        name=net.text("name"), format="caffe", inputs={}, nodes=[], outputs={}, dialect=options.dialect,
        source=net.file, weights=weights, weights_file=".caffemodel", dtype=np.dtype(np.float32),
    )  # fmt: skip
    if options.schema is not None:
        network.fields = {n: f for n, f in options.schema.fields().items() if n not in GENERIC}
    network.notes += ignored
    network.notes += notes_on_rewritten_blobs(layers)
    network.notes += drop_training(layers)
    name_versions(blobs)
    arrays = assign_blobs(layers, stored, weights or net.file, options.needs_match)
    names: dict[str, int] = {}
    nodes: dict[Draft, Node] = {}
    for layer in layers:
        if layer.is_input:
            _add_inputs(network, layer, options)
        elif not layer.dropped and layer.role != "sink":
            node = nodes[layer] = _node(layer, options)
            node.name = unique(layer.name or layer.type, names)
            node.blobs = arrays.get(layer, [])
    network.nodes = list(nodes.values())
    _add_outputs(network, blobs, by_layer=options.dialect in _OUTPUTS_OF_LAYERS)
    return Built(network, layers, nodes, arrays, options)


def _drafts(net: Block, options: Options) -> tuple[list[Draft], list[Draft]]:
    """Return the layers that take part, and those that their include and exclude rules leave out."""
    taking_part: list[Draft] = []
    left_out: list[Draft] = []
    for entry in net:
        if entry.name != "layer":
            continue
        block = net.as_block(entry)
        block.line = entry.line
        draft = _draft(block, options)
        (taking_part if takes_part(block, options.state) else left_out).append(draft)
    return taking_part, left_out


def _draft(block: Block, options: Options) -> Draft:
    name, type_ = block.text("name"), block.entry("type")
    if type_ is None or not type_.value:
        raise block.fail(f"layer '{name}' has no type")
    draft = Draft(
        block, name, _layer_type(block, block.string(type_), options), block.texts("bottom"), block.texts("top")
    )
    draft.role = str(getattr(getattr(_definition(draft.type, options), "cls", None), "role", ""))
    weights = block.numbers("loss_weight")
    with at(draft.place):
        for k, top in enumerate(draft.tops):
            need(top, f"top {k} has no name", NetworkError)
        need(draft.role != "sink" or not draft.tops, f"it has {plural(len(draft.tops), 'top')}, expected none")
        need(
            len(weights) in (0, len(draft.tops)),
            f"'loss_weight' must be given once per top or not at all: {len(draft.tops)} tops, got {len(weights)}",
        )
    return draft


def _layer_type(block: Block, type_: str, options: Options) -> str:
    """Return a layer's type.

    For a Python layer it is the name of its class, unless a C++ layer has the same name.
    """
    python = block.block("python_param") if type_ == "Python" else None
    name = python.text("layer") if python is not None else ""
    if not name:
        return type_
    built_in = [] if name in options.user_types else Registry.of("caffe").find(name)
    return name if all(getattr(d.cls, "modules", ()) for d in built_in) else type_


def _definitions(type_: str, options: Options) -> list[Definition]:
    return [] if type_ in options.user_types else Registry.of("caffe").find(type_)


def _definition(type_: str, options: Options) -> Definition | None:
    """Return the definition of a type in the dialect, else its first one, or None for a type without one."""
    definitions = _definitions(type_, options)
    named = [d for d in definitions if options.dialect is not None and options.dialect in d.dialects]
    return next(iter(named or definitions), None)


def _node(layer: Draft, options: Options) -> Node:
    block, definitions = layer.block, _definitions(layer.type, options)
    return Node(
        name=layer.name,
        type=layer.type,
        inputs=[v.name for v in layer.inputs],
        outputs=[v.name for v in layer.outputs],
        params=params(block, layer.type, definitions, options.schema),
        defaults=absent(block, definitions, options.schema),
        place=layer.place,
        lines=block.lines() if block.line else {},
        texts=block.spellings() if block.line else {},
        in_place=bool(layer.tops and layer.bottoms and layer.tops[0] == layer.bottoms[0]),
        settings=_settings(block, options.state.phase),
        layout="NCHW",
    )


def _settings(block: Block, phase: str) -> dict[str, Any]:
    """Return the phase of a layer, unless it is TEST, and its loss weights, if it has any."""
    settings = {"phase": phase_of(block, phase), "loss_weight": block.numbers("loss_weight")}
    return {name: value for name, value in settings.items() if value not in ("TEST", [])}


def _add_inputs(network: Network, layer: Draft, options: Options) -> None:
    """Add the outputs of an input or data layer as the network's inputs. Leave out what only training reads."""
    types = _input_types(layer, options)
    for version, type_ in zip(layer.outputs, types):
        only_training = bool(version.consumers) and all(consumer.dropped for consumer, _ in version.consumers)
        if only_training or (layer.role == "data" and not version.is_used):
            continue
        network.inputs[version.name] = type_
    if layer.outputs and layer.outputs[0].name in network.inputs:
        steps = preprocess(layer.block, Path(network.source).parent, network.notes)
        if steps is not None:
            network.preprocess[layer.outputs[0].name] = steps


def _input_types(layer: Draft, options: Options) -> list[TensorType | None]:
    cls: Any = getattr(_definition(layer.type, options), "cls", None)
    with at(layer.place):
        instance = cls.__new__(cls)
        instance.prepare(_node(layer, options), options.dialect)
        types: list[TensorType | None] = list(instance.input_types())
        need(len(types) == len(layer.tops), f"the layer states {len(types)} shapes for {len(layer.tops)} tops")
    return types


def _add_outputs(network: Network, blobs: dict[str, list[Version]], *, by_layer: bool) -> None:
    """Add the blobs without consumers as the network's outputs, in alphabetical order. Store the value of every
    blob.

    With `by_layer`, inputs are not outputs, and a blob is an output only if no top of its layer is consumed.
    """
    for blob in sorted(blobs):
        last = blobs[blob][-1]
        if last.producer.dropped or (last.producer.is_input and last.name not in network.inputs):
            continue
        network.blobs[blob] = last.name
        if by_layer and last.producer.is_input:
            continue
        others = [v for v in last.producer.outputs if v is not last] if by_layer else []
        consumers = [consumer for consumer, _ in last.consumers]
        consumers += [consumer for v in others for consumer, _ in v.consumers if consumer.role != "sink"]
        if all(consumer.dropped for consumer in consumers):
            network.outputs[blob] = last.name
