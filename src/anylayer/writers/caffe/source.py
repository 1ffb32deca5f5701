"""What a source is in Caffe: its nodes where it came from Caffe and the dialect has them, else its operators."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import LayerError, at, need
from anylayer.layer import Message
from anylayer.network import TensorType
from anylayer.tracing.simplify import simplify
from anylayer.writers.caffe.builder import Builder
from anylayer.writers.caffe.dialects import Dialect
from anylayer.writers.caffe.graph import FORMS, graph_net
from anylayer.writers.caffe.layers import CaffeLayer, CaffeNet
from anylayer.writers.caffe.network import add_node, input_layers, network_net, takes
from anylayer.writers.caffe.patterns import recognised
from anylayer.writers.caffe.views import View
from anylayer.writers.source import Source, TracedNode


@dataclass(slots=True)
class Made:
    """A network in Caffe, with what is named or lies otherwise in it (see writers.source.Written)."""

    net: CaffeNet
    renamed: dict[str, str] = field(default_factory=dict)
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
    own = [_keeps(t, how, source) for t in source.nodes]
    same = set(source.outputs.values()) == set(source.network.outputs.values())
    whole = len(source.nodes) == len(source.network.nodes)
    if all(own) and same and whole:
        types: dict[str, TensorType | None] = dict(source.inputs)
        return Made(network_net(source.network, how.dialect, types, classes(source)))
    return _mixed(source, how, own)


def classes(source: Source) -> dict[str, type[Message]]:
    """The typed classes that the user defines, by layer type."""
    found: dict[str, type[Message]] = {}
    for t in source.nodes:
        if t.node.type in source.user_types and t.bound is not None and t.bound.definition.typed:
            cls: Any = t.bound.definition.cls
            found[t.node.type] = cls
    return found


def _keeps(t: TracedNode, how: How, source: Source) -> bool:
    if t.node.type in source.user_types or t.node.type in how.keep:
        return True
    ranks = [0 if kind is None else len(kind.shape) for kind in t.inputs]
    return takes(how.dialect, t.node, ranks)


def _of_graph(source: Source, how: How) -> Made:
    net = CaffeNet(source.network.name, dialect=how.dialect, classes=classes(source))
    places = {t.node.name: t.node.place for t in source.nodes}
    channels_last = bool(source.network.layouts) or source.network.format in ("tensorflow", "keras")
    with at(source.network.source):
        turned, ends = graph_net(
            source.graph,
            net,
            list(source.outputs),
            places,
            fold=how.fold,
            blog_compat=how.blog_compat,
            channels_last=channels_last,
        )
    return Made(net, {}, {**turned, **ends})


# ---- nodes, and operators of those that the dialect lacks


def _mixed(source: Source, how: How, own: list[bool]) -> Made:
    """Each node by itself, and each value a blob of its own name; a value that is an output and read is copied."""
    net = CaffeNet(source.network.name, dialect=how.dialect, classes=classes(source))
    types: dict[str, TensorType | None] = dict(source.inputs)
    input_layers(source.network, types, {}, net)
    names = _in_place(source, own)
    places = {t.node.name: t.node.place for t in source.nodes}
    b = Builder(net, FORMS, places, fold=how.fold, blog_compat=how.blog_compat)
    values = {name: View(name, tuple(t.shape)) for name, t in source.inputs.items()}
    b.shapes.update({v.name: v.base for v in values.values()})
    for t, keeps in zip(source.nodes, own):
        with at(t.node.place):
            if keeps:
                _as_node(b, t, names, values)
            else:
                _as_operators(b, t, values)
    result = Made(net)
    _outputs(b, source, values, result)
    return result


def _in_place(source: Source, own: list[bool]) -> dict[str, str]:
    """A layer that has another meaning in place stays so: its output has its input's name."""
    return {
        t.node.outputs[0]: t.node.inputs[0]
        for t, keeps in zip(source.nodes, own)
        if keeps and t.node.in_place and t.node.type == "Eltwise"
    }


def _as_node(b: Builder, t: TracedNode, names: Mapping[str, str], values: dict[str, View]) -> None:
    """The node's own layer. What it reads is blobs."""
    bottoms = [b.settled(values[v]) for v in t.node.inputs]
    blobs = {v: x.name for v, x in zip(t.node.inputs, bottoms)}
    blobs.update({v: blobs.get(names.get(v, v), v) for v in t.node.outputs})
    layer = add_node(b.net, t.node, blobs)
    b.taken.update((layer.name, *layer.tops))
    for name in layer.bottoms:
        b.read[name] = b.read.get(name, 0) + 1
    for value, top, kind in zip(t.node.outputs, layer.tops, t.outputs):
        values[value] = View(top, () if kind is None else tuple(kind.shape))
        b.layers[top] = layer
        b.shapes[top] = values[value].base


def _as_operators(b: Builder, t: TracedNode, values: dict[str, View]) -> None:
    """The layers of the node's operators."""
    if t.body is None:
        for i, value in enumerate(t.node.outputs):
            b.scope = t.node.name
            values[value] = b.constant(np.asarray(t.constants[i]))
        return
    body = recognised(simplify(t.body, exact=True))
    for op in body.ops:
        op.scope = t.node.name
    given = [values[v] for v, kind in zip(t.node.inputs, t.inputs) if kind is not None and v in values]
    need(len(given) == len(body.inputs), f"reads {len(body.inputs)} values, got {len(given)}", LayerError)
    for entry, view in zip(body.inputs, given):
        b.views[id(entry)] = view
    b.run(body)
    for name, result in zip(t.node.outputs, body.outputs):
        values[name] = b.view(result)
    b.kept.append(body)


def _outputs(b: Builder, source: Source, values: Mapping[str, View], result: Made) -> None:
    """Every output is a blob that nothing reads; what else nothing reads is silenced."""
    public: set[str] = set()
    blobs = {}
    makers = {v: t.node for t in source.nodes for v in t.node.outputs}
    for name, value in source.outputs.items():
        with at(makers[value].place if value in makers else f"output '{name}'"):
            blobs[name] = b.settled(values[value])
    shared = Counter(view.name for view in blobs.values())
    for name, view in blobs.items():
        if b.reads(view.name) or shared[view.name] > 1 or view.name not in b.layers:
            with b.within(f"{name}/out"):
                view = b.add("Split", [view], view.base)
        public.add(view.name)
        if view.name != name:
            result.renamed[name] = view.name
    read = {v for layer in b.net.layers for v in layer.bottoms}
    tops = [v for layer in b.net.layers if layer.type != "Input" for v in layer.tops]
    unread = [v for v in dict.fromkeys(tops) if v not in read and v not in public]
    if unread:
        b.net.layers.append(CaffeLayer("silence", "Silence", unread))


def kept_types(source: Source) -> frozenset[str]:
    """The types of layers that are the target's own affair."""
    return frozenset(o.op for o in source.graph.ops if o.domain)
