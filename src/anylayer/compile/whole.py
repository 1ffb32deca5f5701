"""The whole network as one graph, for a writer: host calls refused, chosen layers left as calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anylayer.compile.nodes import Definitions, needed_nodes, trace_nodes
from anylayer.compile.plan import refuse_unfilled, require_types
from anylayer.errors import InputError, LayerError, nearest, need, wording
from anylayer.graph import Graph, Value
from anylayer.layer.opencv import opencv_params
from anylayer.layer.order import ORDERS, permutation, permuted
from anylayer.network import Network, Node, TensorType
from anylayer.source import Source, TracedNode

DOMAIN = "anylayer"
"""The domain of a layer that stays a call and has none of its own."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The types of the layers that are not taken apart: `functions` stay calls of what was traced of them, `keep`
    calls of what the target knows."""

    functions: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    layout: str = ""
    """The order of axes in which the target gives arrays of rank 4 to a kept layer of the user's; "" for the one
    that the layer's class sees."""


def whole(
    network: Network,
    definitions: Definitions,
    inputs: Mapping[str, TensorType | None],
    outputs: Mapping[str, str],
    calls: Calls = Calls(),
) -> Source:
    """Trace all that `outputs` need into one graph: see writers.source.Source.

    Raises LayerError naming a node that runs in Python, whose weights are missing, or whose params cannot be kept;
    InputError for types that no node has.
    """
    types = require_types(network, inputs)
    nodes = needed_nodes(network, outputs)
    _require_there(nodes, calls)
    traced = list(trace_nodes(network, nodes, definitions, types, opaque=calls.keep))
    refuse_unfilled(network, [t for t in traced if t.node.type not in calls.keep])
    graph = _Joining(network, types, calls).joined(traced, outputs)
    users = frozenset(t for t, found in definitions.items() if any(not d.built_in for d in found))
    return Source(network, graph, types, dict(outputs), traced, users)


def _require_there(nodes: Sequence[Node], calls: Calls) -> None:
    there = {node.type for node in nodes}
    options = (wording("functions", "--function"), calls.functions), (wording("keep", "--keep"), calls.keep)
    for option, named in options:
        for type_ in named:
            need(
                type_ in there,
                f"{option}: there is no layer of type '{type_}' in the network{nearest(type_, there)}",
                InputError,
            )


class _Joining:
    """The one graph that is being made of traced nodes."""

    def __init__(self, network: Network, types: Mapping[str, TensorType], calls: Calls) -> None:
        self.graph = Graph()
        self.calls = calls
        self.values: dict[str, Value] = {}
        self.named: set[Value] = set()
        self.graph.reserve([*network.inputs, *(name for node in network.nodes for name in node.outputs)])
        for name, kind in types.items():
            self.values[name] = value = self.graph.input(name, kind.shape, kind.dtype)
            self.named.add(value)

    def joined(self, traced: Sequence[TracedNode], outputs: Mapping[str, str]) -> Graph:
        for t in traced:
            if t.node.type in self.calls.keep:
                results = self.kept(t)
            else:
                _refuse_host_call(t)
                results = self.computed(t)
            for name, value in zip(t.node.outputs, results):
                self.values[name] = value
                if value.const is None and value not in self.named:
                    value.name = name
                    self.named.add(value)
        self.graph.outputs = [self.values[value] for value in outputs.values()]
        return self.graph

    def computed(self, t: TracedNode) -> list[Value]:
        """The values of a node that is taken apart, or stays a call of what was traced of it."""
        if t.body is None:
            return [self.graph.constant(t.constants[i], trusted=True) for i in range(len(t.node.outputs))]
        free = self.given(t)
        if t.node.type not in self.calls.functions:
            return self.graph.inline(t.body, free, scope=t.node.name)
        return self.graph.emit(
            t.node.type,
            free,
            [(v.shape, v.dtype) for v in t.body.outputs],
            scope=t.node.name,
            place=t.node.place,
            names=t.node.outputs,
            domain=t.node.domain or DOMAIN,
            body=t.body,
        )

    def given(self, t: TracedNode) -> list[Value]:
        """The node's inputs that its body has: those that are not known before the network runs."""
        values = [self.values[name] for name in t.node.inputs if name]
        return [v for v in values if v.const is None]

    def kept(self, t: TracedNode) -> list[Value]:
        """The values of a node that stands as it is, its weights behind its inputs. A class that sees another
        order of axes than the file's is given that one in the written file, too."""
        node, orders = t.node, self.orders(t)
        inputs = [self.turned(self.values[name], orders) if name else None for name in node.inputs]
        blobs = [self.graph.constant(np.ascontiguousarray(b), trusted=True) for b in node.blobs]
        types = [kind for kind in t.outputs if kind is not None]
        results = self.graph.emit(
            node.type,
            [*inputs, *blobs],
            [(permuted(kind.shape, *orders), kind.dtype) for kind in types],
            attributes_of(node),
            scope=node.name,
            place=node.place,
            names=[name if orders[0] == orders[1] else f"{name}/{orders[1]}" for name in node.outputs],
            domain=node.domain or DOMAIN,
            body=self.called(t, orders),
            kept=True,
        )
        return [self.turned(value, orders[::-1]) for value in results]

    def orders(self, t: TracedNode) -> tuple[str, str]:
        """The file's order of axes at a kept node, and the one in which the target gives them to it."""
        file, bound = t.node.layout, t.bound
        if file not in ORDERS or bound is None or bound.definition.built_in or bound.definition.typed:
            return "", ""
        return file, self.calls.layout or (bound.order.seen if bound.order else file)

    def turned(self, value: Value, orders: tuple[str, str], graph: Graph | None = None) -> Value:
        """A value of rank 4 from the first order of axes to the second."""
        if orders[0] == orders[1] or len(value.shape) != 4:
            return value
        into = graph or self.graph
        if value.const is not None:
            return into.constant(np.ascontiguousarray(value.const.transpose(permutation(*orders))), trusted=True)
        kind = (permuted(value.shape, *orders), value.dtype)
        return into.emit("Transpose", [value], [kind], {"perm": list(permutation(*orders))})[0]

    def called(self, t: TracedNode, orders: tuple[str, str]) -> Graph | None:
        """What was traced of a node, over all of its inputs, those that are known included, between `orders`."""
        if t.is_host_call:
            return None
        graph = Graph(f"{t.node.name}/")
        free = []
        for i, name in enumerate(name for name in t.node.inputs if name):
            value = self.values[name]
            own = graph.input(f"{t.node.name}/input_{i}", permuted(value.shape, *orders), value.dtype)
            if value.const is None:
                free.append(self.turned(own, orders[::-1], graph))
        if t.body is None:
            graph.outputs = [graph.constant(t.constants[i], trusted=True) for i in range(len(t.node.outputs))]
        else:
            graph.outputs = graph.inline(t.body, free, scope=t.node.name)
        graph.outputs = [self.turned(value, orders, graph) for value in graph.outputs]
        return graph


def _refuse_host_call(t: TracedNode) -> None:
    if not t.is_host_call:
        return
    own = t.bound is None or not t.bound.definition.built_in
    remedy = "Write its forward so that it can be recorded, or keep" if own else "Keep"
    raise LayerError(
        f"runs in Python, which a file cannot hold: {t.reason}. {remedy} it for a runtime that has it: "
        + wording(f"keep=['{t.node.type}']", f"--keep {t.node.type}"),
        t.node.place,
    )


def attributes_of(node: Node) -> dict[str, Any]:
    """A node's params as attributes: flat; numbers, strings, arrays, and lists of one kind. Raises LayerError for
    a param that is something else."""
    found: dict[str, Any] = {}
    for name, value in opencv_params(node.params, node.defaults).items():
        several = isinstance(value, (tuple, list))
        values = [_scalar(v) for v in value] if several else [_scalar(value)]
        kinds = {type(v) for v in values}
        if kinds == {int, float}:
            values, kinds = [float(v) for v in values], {float}
        if not values or kinds == {type(None)}:
            continue
        if len(kinds) > 1 or not kinds <= {int, float, str, bytes, np.ndarray}:
            raise LayerError(f"parameter '{name}' is {value!r}, no attribute holds that: keep", node.place)
        found[name] = values if several else values[0]
    return found


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):  # true and false, too
        return int(value)
    return str(value) if isinstance(value, str) else value
