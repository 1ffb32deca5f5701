"""What a source is in Caffe: its nodes where it came from Caffe and the dialect has them, else its operators."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anylayer.errors import AnyLayerError, LayerError, at, need, wording
from anylayer.layer import Definition, Field, Message, Registry, bind
from anylayer.network import Array, Node, TensorType
from anylayer.optimize.simplify import simplify
from anylayer.source import Source, TracedNode, other_outputs
from anylayer.writers.caffe import opencv
from anylayer.writers.caffe.base import MESSAGES, NUMBERS
from anylayer.writers.caffe.builder import Builder
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.ends import finish, name_blobs
from anylayer.writers.caffe.graph import FORMS, graph_net
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.network import add_node, input_layers, network_net, takes
from anylayer.writers.caffe.patterns import recognised
from anylayer.writers.caffe.views import View


@dataclass(slots=True)
class Made:
    """A network in Caffe, with the inputs and outputs that lie otherwise in it and the outputs that are named
    otherwise (see writers.source.Written)."""

    net: CaffeNet
    outputs: dict[str, str] = field(default_factory=dict)
    transposed: dict[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class How:
    """The writer's options: see writers.caffe.write."""

    dialect: Dialect
    keep: frozenset[str] = frozenset()
    fold: bool = False
    blog_compat: bool = False


def made(source: Source, how: How) -> Made:
    """The source as Caffe's layers. Raises LayerError for what the dialect cannot express."""
    if source.network.format != "caffe":
        return _of_graph(source, how)
    own = [_kept(t, how, source) for t in source.nodes]
    same = set(source.outputs.values()) == set(source.network.outputs.values())
    whole = len(source.nodes) == len(source.network.nodes)
    nodes = [node for node in own if node is not None]
    if len(nodes) == len(own) and same and whole:
        types: dict[str, TensorType | None] = dict(source.inputs)
        net = network_net(source.network, started(source, how), types, nodes)
        finish(net, source.outputs)
        return Made(net)
    return _mixed(source, how, own)


def started(source: Source, how: How) -> CaffeNet:
    """The network that is to be filled, with what the user declares."""
    return CaffeNet(
        source.network.name, dialect=how.dialect, classes=classes(source), declared=declared(source, how)
    )


def classes(source: Source) -> dict[str, type[Message] | None]:
    """The layer types that the user defines, with their classes where those declare their fields."""
    found: dict[str, type[Message] | None] = dict.fromkeys(source.user_types)
    for t in source.nodes:
        if t.node.type in source.user_types and t.bound is not None and t.bound.definition.typed:
            cls: Any = t.bound.definition.cls
            found[t.node.type] = cls
    return found


def declared(source: Source, how: How) -> Mapping[str, Field]:
    """LayerParameter's fields as the schema given with the source has them; for another dialect only those that no
    built-in layer has."""
    fields: Mapping[str, Field] = source.network.fields
    if how.dialect.name in ("", source.network.dialect):
        return fields
    known = {*NUMBERS, *MESSAGES, *Registry.of("caffe").messages()}
    return {name: field for name, field in fields.items() if name not in known}


def _kept(t: TracedNode, how: How, source: Source) -> Node | None:
    """The node as the dialect may have it, with its weights; None where it lacks such a layer."""
    if t.node.type in source.user_types or t.node.type in how.keep:
        node: Node | None = _as_given(t, how, t.node.type in source.user_types)
    else:
        node = _as_the_dialect_has_it(t, how)
    return None if node is None else replace(node, blobs=_weights(t))


def _as_given(t: TracedNode, how: How, users: bool) -> Node:
    """The node as it is. Raises LayerError where the dialect gives it another meaning."""
    other = None if users else _other(t, how.dialect)
    if other is not None and _translated(t, t.node, other, how.dialect) is None:
        raise LayerError(_other_meaning(t, how.dialect.name, other), t.node.place)
    if how.dialect.name == "opencv" and other is None:
        opencv.require_readable(t.node)
    return t.node


def _as_the_dialect_has_it(t: TracedNode, how: How) -> Node | None:
    """The node of a built-in layer; None where the dialect lacks it, or some of its fields."""
    node: Node | None = _without_own_fields(t, how.dialect)
    if how.dialect.name == "opencv" and how.dialect.has(t.node.type):
        shapes = [() if kind is None else tuple(kind.shape) for kind in t.inputs]
        node = opencv.told(t.node, "" if t.bound is None else _cls(t.bound.definition).message, shapes)
    if node is None or not takes(how.dialect, node):
        return None
    other = _other(t, how.dialect)
    if other is not None:
        return _translated(t, node, other, how.dialect)
    if t.bound is None or (how.dialect.name in ("", t.bound.instance.dialect) and not node.defaults):
        return node
    return _spelled_out(t, node, _cls(t.bound.definition), how.dialect)


def _without_own_fields(t: TracedNode, dialect: Dialect) -> Node:
    """The node without the fields that no file is written with. Raises LayerError where the dialect's layers have
    another value."""
    if t.bound is None or not t.bound.definition.typed:
        return t.node
    instance, params = t.bound.instance, t.node.params
    for name, declared in type(instance).fields.items():
        if not declared.unwritten:
            continue
        theirs, own = declared.default_for(dialect.name), getattr(instance, name)
        remedy = wording(f"dialect='{dialect.name}'", f"--dialect {dialect.name}")
        if theirs != own and dialect.has(t.node.type):
            raise LayerError(
                f"{name} is {own} here and always {theirs} in dialect '{dialect.name}', no file says otherwise. "
                f"Read the network in that dialect ({remedy})",
                t.node.place,
            )
        values = {n: v for n, v in params.get(instance.message, {}).items() if n != name}
        params = {**params, instance.message: values} if instance.message in params else params
    return replace(t.node, params=params)


def _weights(t: TracedNode) -> list[Array]:
    """The node's weights. Those of fillers are spelled out: Caffe refuses a layer with fewer weights in the file,
    and not every reader knows fillers."""
    wanted = {} if t.bound is None or t.node.blobs else getattr(t.bound.instance, "wanted", {})
    values = [wanted[i].values() for i in sorted(wanted)]
    filled = [np.ascontiguousarray(v, np.float32) for v in values if v is not None]
    return filled if filled and len(filled) == len(values) else t.node.blobs


_MOST_TRIED = 1 << 22
"""Elements of the inputs on which a layer is tried in two dialects."""


def _spelled_out(t: TracedNode, node: Node, theirs: Any, dialect: Dialect) -> Node:
    """The node with the fields written that the dialect would give another value than the source where they are
    absent."""
    if t.bound is None or not t.bound.definition.typed or not theirs.message:
        return node
    instance = t.bound.instance
    values = dict(node.params.get(theirs.message, {}))
    added = {}
    for name, declared in type(instance).fields.items():
        if name in values or declared.repeated or isinstance(declared.kind, type) or name not in theirs.fields:
            continue
        if not dialect.has_field(theirs.message, name):
            continue
        value = getattr(instance, name)
        if value is not None and theirs.fields[name].default_for(dialect.name) != value:
            added[name] = value
    return replace(node, params={**node.params, theirs.message: {**values, **added}}) if added else node


def _translated(t: TracedNode, node: Node, other: Definition, dialect: Dialect) -> Node | None:
    """The node in the other dialect's words, where it then computes the same."""
    kinds = [kind for kind in t.inputs if kind is not None]
    if t.bound is None or len(kinds) < len(t.inputs) or sum(math.prod(k.shape) for k in kinds) > _MOST_TRIED:
        return None
    node = _spelled_out(t, node, _cls(other), dialect)
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(kind.shape).astype(kind.dtype) for kind in kinds]
    try:
        here = bind(t.node, [t.bound.definition], kinds, t.bound.instance.dialect)(inputs)
        there = bind(node, [other], kinds, dialect.name)(inputs)
    except AnyLayerError:
        return None
    same = (x.shape == y.shape and np.allclose(x, y, rtol=1e-6, atol=1e-7) for x, y in zip(here, there))
    return node if all(same) else None


def _cls(definition: Definition) -> Any:
    return definition.cls


def _other(t: TracedNode, dialect: Dialect) -> Definition | None:
    """What the node's type means in the dialect, where that is something else than in the source."""
    named = [d for d in Registry.of("caffe").find(t.node.type) if dialect.name in d.dialects]
    own = t.bound.definition.cls if t.bound is not None else None
    return named[0] if named and own is not None and named[0].cls is not own else None


def _of_graph(source: Source, how: How) -> Made:
    net = started(source, how)
    places = {t.node.name: t.node.place for t in source.nodes}
    channels_last = bool(source.network.layouts) or source.network.format in ("tensorflow", "keras")
    other = other_outputs(source)
    with at(source.network.source):
        turned, ends = graph_net(
            source.graph,
            net,
            [other.get(name, name) for name in source.outputs],
            places,
            fold=how.fold,
            blog_compat=how.blog_compat,
            channels_last=channels_last,
        )
    lying = {name: ends[m] for name in source.outputs if (m := other.get(name, name)) in ends}
    return Made(net, other, {**turned, **lying})


# ---- nodes, and operators of those that the dialect lacks


def _mixed(source: Source, how: How, own: Sequence[Node | None]) -> Made:
    """Each node by itself, and each value a blob of its own name; a value that is an output and read is copied."""
    net = started(source, how)
    types: dict[str, TensorType | None] = dict(source.inputs)
    input_layers(source.network, types, {}, net)
    names = _in_place(source, own)
    places = {t.node.name: t.node.place for t in source.nodes}
    b = Builder(net, FORMS, places, fold=how.fold, blog_compat=how.blog_compat)
    b.taken |= {node.name for node in own if node is not None}
    b.blobs |= {v for node in own if node is not None for v in node.outputs}
    constants = {v for t in source.nodes for i, v in enumerate(t.node.outputs) if i in t.constants}
    values = {name: View(name, tuple(t.shape)) for name, t in source.inputs.items()}
    b.shapes.update({v.name: v.base for v in values.values()})
    for t, node in zip(source.nodes, own):
        with at(t.node.place):
            if node is not None:
                _as_node(b, node, t, names, values)
                continue
            other = _other(t, how.dialect)
            with _explained(t, how.dialect.name, other) if other is not None else nullcontext():
                values.update(_as_operators(b, t, {v: x for v, x in values.items() if v not in constants}))
    blobs, renamed = {}, other_outputs(source)
    makers = {v: t.node for t in source.nodes for v in t.node.outputs}
    for name, value in source.outputs.items():
        with at(makers[value].place if value in makers else f"output '{name}'"):
            blobs[renamed.get(name, name)] = b.settled(values[value])
    name_blobs(b, blobs)
    finish(net, blobs)
    return Made(net, renamed)


@contextmanager
def _explained(t: TracedNode, dialect: str, other: Definition) -> Iterator[None]:
    """Say of a layer that cannot be expressed that the dialect has its type, with another meaning."""
    try:
        yield
    except LayerError as error:
        rule = error.message.split(". ")[0]
        meant = _other_meaning(t, dialect, other)
        raise LayerError(f"{meant}. As other layers it cannot be written: {rule}", *error.places) from error


def _other_meaning(t: TracedNode, dialect: str, other: Definition) -> str:
    remedy = wording(f"dialect='{dialect}'", f"--dialect {dialect}")
    return (
        f"{t.node.type} computes something else in dialect '{dialect}': {other.summary.rstrip('.')}. If it is to "
        f"compute that, read the network in that dialect ({remedy})"
    )


def _in_place(source: Source, own: Sequence[Node | None]) -> dict[str, str]:
    """A layer that has another meaning in place stays so: its output has its input's name."""
    return {
        node.outputs[0]: node.inputs[0]
        for node in own
        if node is not None and node.in_place and node.type == "Eltwise"
    }


def _as_node(b: Builder, node: Node, t: TracedNode, names: Mapping[str, str], values: dict[str, View]) -> None:
    """The node's own layer. What it reads is blobs."""
    bottoms = [b.settled(values[v]) for v in t.node.inputs]
    blobs = {v: x.name for v, x in zip(t.node.inputs, bottoms)}
    blobs.update({v: blobs.get(names.get(v, v), v) for v in t.node.outputs})
    layer = add_node(b.net, node, blobs)
    b.taken.add(layer.name)
    b.blobs.update(layer.tops)
    for name in layer.bottoms:
        b.read[name] = b.read.get(name, 0) + 1
    for value, top, kind in zip(t.node.outputs, layer.tops, t.outputs):
        values[value] = View(top, () if kind is None else tuple(kind.shape))
        b.layers[top] = layer
        b.shapes[top] = values[value].base


def _as_operators(b: Builder, t: TracedNode, values: Mapping[str, View]) -> dict[str, View]:
    """Add the layers of the node's operators; return what its outputs are. `values` are those that are computed
    when the network runs: a body has the others as constants."""
    if t.body is None:
        b.scope = t.node.name
        return {v: b.constant(np.asarray(t.constants[i])) for i, v in enumerate(t.node.outputs)}
    body = recognised(simplify(t.body, exact=True))
    for op in body.ops:
        op.scope = t.node.name
    given = [values[v] for v, kind in zip(t.node.inputs, t.inputs) if kind is not None and v in values]
    need(len(given) == len(body.inputs), f"reads {len(body.inputs)} values, got {len(given)}", LayerError)
    for entry, view in zip(body.inputs, given):
        b.views[entry] = view
    b.run(body)
    b.kept.append(body)
    return {name: b.view(result) for name, result in zip(t.node.outputs, body.outputs)}


def kept_types(source: Source) -> frozenset[str]:
    """The types of layers that are the target's own affair."""
    return frozenset(o.op for o in source.graph.ops if o.domain)
