"""Turn a writer's source into a CaffeNet.

A node that was read from Caffe becomes its own layer, if the dialect has one that computes the same. Any other
node becomes the layers of its operators.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anylayer.errors import AnyLayerError, LayerError, at, need, within, wording
from anylayer.layer import Definition, Field, Message, Registry, bind
from anylayer.network import Array, Node, TensorType
from anylayer.source import Source, TracedNode, other_outputs
from anylayer.writers.caffe import opencv_rules
from anylayer.writers.caffe.builder import CaffeBuilder
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.from_graph import LOWERINGS, net_from_graph, simplified
from anylayer.writers.caffe.from_nodes import add_node, can_express, input_layers, net_from_nodes
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.messages import MESSAGE_CLASSES, MESSAGE_NUMBERS
from anylayer.writers.caffe.outputs import finish_outputs, name_blobs
from anylayer.writers.caffe.views import BlobView


@dataclass(slots=True)
class CaffeResult:
    """A net of Caffe layers that is ready to be written.

    `outputs` maps an output to its other name in the file, and `transposed` maps an input or output to the
    permutation of its axes; see Written in anylayer.source.
    """

    net: CaffeNet
    outputs: dict[str, str] = field(default_factory=dict)
    transposed: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CaffeWriteOptions:
    """The options of anylayer.writers.caffe.write."""

    dialect: Dialect
    keep: frozenset[str] = frozenset()
    fold: bool = False
    blog_compat: bool = False


def net_from_source(source: Source, options: CaffeWriteOptions) -> CaffeResult:
    """Return the source as Caffe layers. Raises LayerError for what the dialect cannot express."""
    if source.network.format != "caffe":
        return _from_operators(source, options)
    own = [_dialect_node(t, options, source) for t in source.nodes]
    same_outputs = set(source.outputs.values()) == set(source.network.outputs.values())
    all_nodes = len(source.nodes) == len(source.network.nodes)
    nodes = [node for node in own if node is not None]
    if len(nodes) == len(own) and same_outputs and all_nodes:
        types: dict[str, TensorType | None] = dict(source.inputs)
        net = net_from_nodes(source.network, _empty_net(source, options), types, nodes)
        finish_outputs(net, source.outputs)
        return CaffeResult(net)
    return _node_by_node(source, options, own)


def _empty_net(source: Source, options: CaffeWriteOptions) -> CaffeNet:
    """Return a net without layers that has the types and fields which the user declares.

    A type has its class if that declares its fields, else None.
    """
    classes: dict[str, type[Message] | None] = dict.fromkeys(source.user_types)
    for t in source.nodes:
        if t.node.type in classes and t.bound is not None and t.bound.definition.typed:
            classes[t.node.type] = t.bound.definition.layer_class
    name, declared = source.network.name, _user_fields(source, options)
    return CaffeNet(name, dialect=options.dialect, classes=classes, declared=declared)


def _user_fields(source: Source, options: CaffeWriteOptions) -> Mapping[str, Field]:
    """Return LayerParameter's fields in the schema that was given with the source.

    For a dialect other than the source's, leave out the fields that built-in layers have.
    """
    fields: Mapping[str, Field] = source.network.fields
    if options.dialect.name in ("", source.network.dialect):
        return fields
    built_in = {*MESSAGE_NUMBERS, *MESSAGE_CLASSES, *Registry.of("caffe").messages()}
    return {name: field for name, field in fields.items() if name not in built_in}


def _dialect_node(t: TracedNode, options: CaffeWriteOptions, source: Source) -> Node | None:
    """Return the node as the dialect spells it, with its weights; None where the dialect has no such layer."""
    if t.bound is not None and t.bound.definition.is_function:
        return None
    if t.node.type in source.user_types or t.node.type in options.keep:
        node: Node | None = _unchanged_node(t, options, t.node.type in source.user_types)
    else:
        node = _built_in_node(t, options)
    return None if node is None else replace(node, blobs=_weights(t))


def _unchanged_node(t: TracedNode, options: CaffeWriteOptions, user_defined: bool) -> Node:
    """Return the node unchanged. Raises LayerError where the dialect gives it another meaning."""
    other = None if user_defined else _dialect_definition(t, options.dialect)
    if other is not None and _translate(t, t.node, other, options.dialect) is None:
        raise LayerError(_other_meaning(t, options.dialect.name, other), t.node.place)
    if options.dialect.name == "opencv" and other is None:
        opencv_rules.require_readable(t.node)
    return t.node


def _built_in_node(t: TracedNode, options: CaffeWriteOptions) -> Node | None:
    """Return the node of a built-in layer; None where the dialect lacks its type or one of its fields."""
    node: Node | None = _without_unwritten_fields(t, options.dialect)
    if options.dialect.name == "opencv" and options.dialect.has(t.node.type):
        shapes = [() if kind is None else tuple(kind.shape) for kind in t.inputs]
        node = opencv_rules.node_for_opencv(
            t.node, "" if t.bound is None else t.bound.definition.layer_class.message, shapes
        )
    if node is None or not can_express(options.dialect, node):
        return None
    other = _dialect_definition(t, options.dialect)
    if other is not None:
        return _translate(t, node, other, options.dialect)
    if t.bound is None or (options.dialect.name in ("", t.bound.instance.dialect) and not node.defaults):
        return node
    return _with_explicit_defaults(t, node, t.bound.definition.layer_class, options.dialect)


def _without_unwritten_fields(t: TracedNode, dialect: Dialect) -> Node:
    """Return the node without the fields that the dialect's files do not have and that do not affect values, and
    without those that are never written to a file, since a dialect fixes their values.

    Raises LayerError where the dialect fixes another value.
    """
    if t.bound is None or not t.bound.definition.typed:
        return t.node
    instance, params = t.bound.instance, t.node.params
    left_out = _left_out(t, dialect)
    if left_out & params.get(instance.message, {}).keys():
        kept = {n: v for n, v in params[instance.message].items() if n not in left_out}
        params = {**params, instance.message: kept}
    for name, declared in type(instance).fields.items():
        if not declared.unwritten:
            continue
        theirs, own = declared.default_for(dialect.name), getattr(instance, name)
        remedy = wording(f"dialect='{dialect.name}'", f"--dialect {dialect.name}")
        if theirs != own and dialect.has(t.node.type):
            raise LayerError(
                f"{name} is {own} here, but always {theirs} in dialect '{dialect.name}', and no field of a file "
                f"sets it. Read the network in that dialect ({remedy})",
                t.node.place,
            )
        values = {n: v for n, v in params.get(instance.message, {}).items() if n != name}
        params = {**params, instance.message: values} if instance.message in params else params
    return replace(t.node, params=params)


def _left_out(t: TracedNode, dialect: Dialect) -> set[str]:
    """Return the fields of the node's class that files in the dialect do not keep."""
    instance: Any = None if t.bound is None else t.bound.instance
    fields: Mapping[str, Field] = getattr(type(instance), "fields", {})
    return {name for name, f in fields.items() if not f.is_written_in(dialect.name, instance.dialect)}


def _weights(t: TracedNode) -> list[Array]:
    """Return the node's weights; where it has none, those that its fillers give.

    Caffe refuses a layer with too few weights in the file, and not every reader knows fillers.
    """
    declared = {} if t.bound is None or t.node.blobs else getattr(t.bound.instance, "wanted", {})
    values = [declared[i].values() for i in sorted(declared)]
    filled = [np.ascontiguousarray(v, np.float32) for v in values if v is not None]
    return filled if filled and len(filled) == len(values) else t.node.blobs


_MAX_TRIAL_VALUES = 1 << 22
"""The largest number of elements of a layer's inputs for which its meanings in two dialects are compared by
running both."""


def _with_explicit_defaults(t: TracedNode, node: Node, theirs: Any, dialect: Dialect) -> Node:
    """Return the node with its default values written where the dialect has other defaults.

    `theirs` is the class of the node's type in the dialect.
    """
    if t.bound is None or not t.bound.definition.typed or not theirs.message:
        return node
    instance = t.bound.instance
    values = dict(node.params.get(theirs.message, {}))
    added = {}
    for name, declared in type(instance).fields.items():
        if name in values or declared.repeated or isinstance(declared.kind, type) or name not in theirs.fields:
            continue
        if not dialect.has_field(theirs.message, name) or name in _left_out(t, dialect):
            continue
        value = getattr(instance, name)
        if value is not None and theirs.fields[name].default_for(dialect.name) != value:
            added[name] = value
    return replace(node, params={**node.params, theirs.message: {**values, **added}}) if added else node


def _translate(t: TracedNode, node: Node, other: Definition, dialect: Dialect) -> Node | None:
    """Return the node as another definition of its type spells it; None unless both compute the same.

    Both are run on seeded noise and compared.
    """
    kinds = [kind for kind in t.inputs if kind is not None]
    if t.bound is None or len(kinds) < len(t.inputs) or sum(math.prod(k.shape) for k in kinds) > _MAX_TRIAL_VALUES:
        return None
    node = _with_explicit_defaults(t, node, other.layer_class, dialect)
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(kind.shape).astype(kind.dtype) for kind in kinds]
    try:
        ours = bind(t.node, [t.bound.definition], kinds, t.bound.instance.dialect)(inputs)
        theirs = bind(node, [other], kinds, dialect.name)(inputs)
    except AnyLayerError:
        return None
    same = (x.shape == y.shape and np.allclose(x, y, rtol=1e-6, atol=1e-7) for x, y in zip(ours, theirs))
    return node if all(same) else None


def _dialect_definition(t: TracedNode, dialect: Dialect) -> Definition | None:
    """Return the definition of the node's type in the dialect if it differs from the source's, else None."""
    named = [d for d in Registry.of("caffe").find(t.node.type) if dialect.name in d.dialects]
    layer_class = t.bound.definition.cls if t.bound is not None else None
    return named[0] if named and layer_class is not None and named[0].cls is not layer_class else None


def _from_operators(source: Source, options: CaffeWriteOptions) -> CaffeResult:
    """Return the layers of the source's whole graph."""
    net = _empty_net(source, options)
    places = {t.node.name: t.node.place for t in source.nodes}
    channels_last = bool(source.network.layouts) or source.network.format in ("tensorflow", "keras", "tflite")
    other = other_outputs(source)
    with within(source.network.source):
        permuted_inputs, permuted_outputs = net_from_graph(
            source.graph,
            net,
            [other.get(name, name) for name in source.outputs],
            places,
            fold=options.fold,
            blog_compat=options.blog_compat,
            channels_last=channels_last,
        )
    for name in source.outputs:
        in_file = other.get(name, name)
        if in_file in permuted_outputs:
            permuted_inputs[name] = permuted_outputs[in_file]
    return CaffeResult(net, other, permuted_inputs)


# ---- a layer for each node that the dialect has, operators for the others


def _node_by_node(source: Source, options: CaffeWriteOptions, own: Sequence[Node | None]) -> CaffeResult:
    """Return the layers of each node in turn: the node's own layer, or those of its operators.

    Values are blobs of the same name. An output that has consumers is copied.
    """
    net = _empty_net(source, options)
    types: dict[str, TensorType | None] = dict(source.inputs)
    input_layers(source.network, types, {}, net)
    names = _in_place_outputs(own)
    places = {t.node.name: t.node.place for t in source.nodes}
    b = CaffeBuilder(net, LOWERINGS, places, fold=options.fold, blog_compat=options.blog_compat)
    b.layer_names |= {node.name for node in own if node is not None}
    b.blob_names |= {v for node in own if node is not None for v in node.outputs}
    constants = {v for t in source.nodes for i, v in enumerate(t.node.outputs) if i in t.constants}
    values = {name: BlobView(name, tuple(t.shape)) for name, t in source.inputs.items()}
    b.shapes.update({v.name: v.base for v in values.values()})
    for t, node in zip(source.nodes, own):
        with at(t.node.place):
            if node is not None:
                _add_node(b, node, t, names, values)
                continue
            other = _dialect_definition(t, options.dialect)
            with _explaining_other_meaning(t, options.dialect.name, other) if other is not None else nullcontext():
                values.update(_add_operators(b, t, {v: x for v, x in values.items() if v not in constants}))
    blobs, renamed = {}, other_outputs(source)
    producers = {v: t.node for t in source.nodes for v in t.node.outputs}
    for name, value in source.outputs.items():
        with at(producers[value].place if value in producers else f"output '{name}'"):
            blobs[renamed.get(name, name)] = b.materialized(values[value])
    name_blobs(b, blobs)
    finish_outputs(net, blobs)
    return CaffeResult(net, renamed)


@contextmanager
def _explaining_other_meaning(t: TracedNode, dialect: str, other: Definition) -> Iterator[None]:
    """Add to a LayerError that the dialect has the node's type with another meaning."""
    try:
        yield
    except LayerError as error:
        rule = error.message.split(". ")[0]
        meant = _other_meaning(t, dialect, other)
        raise LayerError(f"{meant}. It cannot be written as other layers: {rule}", *error.places) from error


def _other_meaning(t: TracedNode, dialect: str, other: Definition) -> str:
    remedy = wording(f"dialect='{dialect}'", f"--dialect {dialect}")
    return (
        f"{t.node.type} has another meaning in dialect '{dialect}': {other.summary.rstrip('.')}. If that is the "
        f"intended meaning, read the network in that dialect ({remedy})"
    )


def _in_place_outputs(own: Sequence[Node | None]) -> dict[str, str]:
    """Return the outputs that share the blob of their input: Caffe's Eltwise computes other results in place."""
    return {
        node.outputs[0]: node.inputs[0]
        for node in own
        if node is not None and node.in_place and node.type == "Eltwise"
    }


def _add_node(
    b: CaffeBuilder, node: Node, t: TracedNode, names: Mapping[str, str], values: dict[str, BlobView]
) -> None:
    """Add the node's own layer and the views of its outputs to `values`. `names` are outputs with another blob."""
    bottoms = [b.materialized(values[v]) for v in t.node.inputs]
    blobs = {v: x.name for v, x in zip(t.node.inputs, bottoms)}
    blobs.update({v: blobs.get(names.get(v, v), v) for v in t.node.outputs})
    layer = add_node(b.net, node, blobs)
    b.layer_names.add(layer.name)
    b.blob_names.update(layer.tops)
    b.count_uses(layer.bottoms)
    for value, top, kind in zip(t.node.outputs, layer.tops, t.outputs):
        values[value] = BlobView(top, () if kind is None else tuple(kind.shape))
        b.layers[top] = layer
        b.shapes[top] = values[value].base


def _add_operators(b: CaffeBuilder, t: TracedNode, values: Mapping[str, BlobView]) -> dict[str, BlobView]:
    """Add the layers of the node's operators and return the views of its outputs.

    `values` are the computed values so far. Inputs of the node that are not among them are constants in its body.
    """
    if t.body is None:
        b.scope = t.node.name
        return {v: b.constant_blob(np.asarray(t.constants[i])) for i, v in enumerate(t.node.outputs)}
    body = simplified(t.body, b.dialect)
    for op in body.ops:
        op.scope = t.node.name
    inputs = [values[v] for v, kind in zip(t.node.inputs, t.inputs) if kind is not None and v in values]
    need(
        len(inputs) == len(body.inputs),
        f"the layer has {len(inputs)} computed inputs, expected {len(body.inputs)}",
        LayerError,
    )
    for entry, view in zip(body.inputs, inputs):
        b.views[entry] = view
    b.lower_graph(body)
    return {name: b.view(result) for name, result in zip(t.node.outputs, body.outputs)}


def kept_types(source: Source) -> frozenset[str]:
    """Return the layer types that the target must define itself."""
    return frozenset(o.op for o in source.graph.ops if o.domain)
