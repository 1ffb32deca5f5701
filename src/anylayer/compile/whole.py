"""Trace a whole network into one graph for a writer. Host calls are refused; chosen layers stay calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from anylayer.compile.inputs import needed_nodes
from anylayer.compile.nodes import Definitions, trace_nodes
from anylayer.compile.plan import refuse_unfilled, require_types
from anylayer.errors import LayerError, need_one_of, wording
from anylayer.graph import Graph, Value
from anylayer.graph.symbolic import depends_on_data
from anylayer.layer.opencv import opencv_params
from anylayer.layer.order import ORDERS, permutation, permuted
from anylayer.network import Network, Node, TensorType
from anylayer.source import Source, TracedNode

DOMAIN = "anylayer"
"""The domain of a layer that stays a call, where its node has no domain."""


@dataclass(frozen=True, slots=True)
class Calls:
    """The layer types that stay calls in the written file.

    `functions` become calls of a function whose body is the layer's trace. `keep` become calls of a layer that the
    target has. `layout` is the order of axes in which the target passes arrays of rank 4 to a kept layer of the
    user; "" means the order that the layer's class expects. `choosable` says whether the user can choose types to
    keep. `quantized` says whether operators on quantized constants stay operators, too.
    """

    functions: frozenset[str] = frozenset()
    keep: frozenset[str] = frozenset()
    layout: str = ""
    choosable: bool = True
    quantized: bool = False


def whole(
    network: Network,
    definitions: Definitions,
    inputs: Mapping[str, TensorType | None],
    outputs: Mapping[str, str],
    calls: Calls = Calls(),
    rewrite: Callable[[Graph], Graph] | None = None,
) -> Source:
    """Trace the nodes that `outputs` depend on into one graph: see anylayer.source.Source.

    rewrite: a function of the graph of one node; the graph that it returns takes its place.

    Raises LayerError for a node that runs in Python, whose weights are missing, or whose params a kept layer
    cannot have; InputError for layer types in `calls` that no node has.
    """
    types = require_types(network, inputs)
    nodes = needed_nodes(network, outputs)
    _require_types(nodes, calls)
    traced = list(trace_nodes(network, nodes, definitions, types, opaque=calls.keep, quantized=calls.quantized))
    refuse_unfilled(network, [t for t in traced if t.node.type not in calls.keep])
    for t in traced:
        if rewrite is not None and t.body is not None and not _selects(t.body):
            t.body = rewrite(t.body)
    graph = _WholeGraph(network, types, calls).build(traced, outputs)
    users = frozenset(t for t, classes in definitions.items() if any(not d.built_in for d in classes))
    return Source(network, graph, types, dict(outputs), traced, users)


def _selects(graph: Graph) -> bool:
    """Return whether a graph has symbolic sizes that depend on data, about which a rewrite may not decide."""
    return any(depends_on_data(d) for o in graph.ops for v in o.outputs for d in v.shape)


def _require_types(nodes: Sequence[Node], calls: Calls) -> None:
    types = {node.type for node in nodes}
    options = (wording("functions", "--function"), calls.functions), (wording("keep", "--keep"), calls.keep)
    for option, named in options:
        for type_ in named:
            need_one_of(type_, types, f"{option}: there is no layer of type '{type_}' in the network")


class _WholeGraph:
    """The graph of a whole network, under construction from traced nodes.

    `values` maps the name of each value of the network to its value in the graph. `named` holds the values that
    have the name of a network's value already.
    """

    def __init__(self, network: Network, types: Mapping[str, TensorType], calls: Calls) -> None:
        self.graph = Graph()
        self.calls = calls
        self.values: dict[str, Value] = {}
        self.named: set[Value] = set()
        self.graph.reserve([*network.inputs, *(name for node in network.nodes for name in node.outputs)])
        for name, kind in types.items():
            self.values[name] = value = self.graph.input(name, kind.shape, kind.dtype)
            self.named.add(value)

    def build(self, traced: Sequence[TracedNode], outputs: Mapping[str, str]) -> Graph:
        for t in traced:
            if t.node.type in self.calls.keep:
                results = self.kept(t)
            else:
                _refuse_host_call(t, self.calls.choosable)
                results = self.computed(t)
            for name, value in zip(t.node.outputs, results):
                self.values[name] = value
                if value.const is None and value not in self.named:
                    value.name = name
                    self.named.add(value)
        self.graph.outputs = [self.values[value] for value in outputs.values()]
        return self.graph

    def computed(self, t: TracedNode) -> list[Value]:
        """Add a node as its operators, or as a call of a function; return its outputs."""
        if t.body is None:
            return [self.graph.constant(t.constants[i], trusted=True) for i in range(len(t.node.outputs))]
        free = self.body_inputs(t)
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

    def body_inputs(self, t: TracedNode) -> list[Value]:
        """Return the inputs of a node's body: those that are not constant."""
        values = [self.values[name] for name in t.node.inputs if name]
        return [v for v in values if v.const is None]

    def kept(self, t: TracedNode) -> list[Value]:
        """Add a node as a call of a layer that the target has, and return its outputs.

        The weights are the last inputs of the call. A class with another order of axes than the file's keeps its
        order in the written file.
        """
        node, orders = t.node, self.orders(t)
        inputs = [self.transposed(self.values[name], orders) if name else None for name in node.inputs]
        blobs = [self.graph.constant(np.asarray(b, order="C"), trusted=True) for b in node.blobs]
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
            body=self.body_of_kept(t, orders),
            kept=True,
        )
        return [self.transposed(value, orders[::-1]) for value in results]

    def orders(self, t: TracedNode) -> tuple[str, str]:
        """Return the file's order of axes at a kept node, and the order in which the target passes arrays."""
        file, bound = t.node.layout, t.bound
        if file not in ORDERS or bound is None or bound.definition.built_in or bound.definition.typed:
            return "", ""
        return file, self.calls.layout or (bound.order.seen if bound.order else file)

    def transposed(self, value: Value, orders: tuple[str, str], graph: Graph | None = None) -> Value:
        """Return a value of rank 4 transposed from the first order of axes to the second, others unchanged."""
        if orders[0] == orders[1] or len(value.shape) != 4:
            return value
        into = graph or self.graph
        if value.const is not None:
            return into.constant(np.asarray(value.const.transpose(permutation(*orders)), order="C"), trusted=True)
        kind = (permuted(value.shape, *orders), value.dtype)
        return into.emit("Transpose", [value], [kind], {"perm": list(permutation(*orders))})[0]

    def body_of_kept(self, t: TracedNode, orders: tuple[str, str]) -> Graph | None:
        """Return the graph that a kept node computes from all of its inputs, including constants, or None if it
        has no operators. Inputs and outputs are in the target's order of axes.
        """
        if not t.has_operators:
            return None
        graph = Graph(f"{t.node.name}/")
        free = []
        for i, name in enumerate(name for name in t.node.inputs if name):
            value = self.values[name]
            inner = graph.input(f"{t.node.name}/input_{i}", permuted(value.shape, *orders), value.dtype)
            if value.const is None:
                free.append(self.transposed(inner, orders[::-1], graph))
        if t.body is None:
            graph.outputs = [graph.constant(t.constants[i], trusted=True) for i in range(len(t.node.outputs))]
        else:
            graph.outputs = graph.inline(t.body, free, scope=t.node.name)
        graph.outputs = [self.transposed(value, orders, graph) for value in graph.outputs]
        return graph


def _refuse_host_call(t: TracedNode, can_keep: bool) -> None:
    """Raise LayerError for a node without operators. can_keep: whether the user can keep its type."""
    if t.has_operators:
        return
    keep = wording(f"keep=['{t.node.type}']", f"--keep {t.node.type}")
    if t.bound is not None and t.bound.definition.native_only:
        raise LayerError(
            f"a native kernel computes it ({t.bound.definition.origin}), which a file cannot hold. Give a NumPy "
            f"class of the type beside the library{f', or keep it for a runtime that has it: {keep}' * can_keep}",
            t.node.place,
        )
    is_own = t.bound is None or not t.bound.definition.built_in
    others = [
        *(["write its forward so that it can be recorded"] if is_own else []),
        *([f"keep it for a runtime that has the layer: {keep}"] if can_keep else []),
    ]
    remedy = ", or ".join(others) or "give a class of the type whose forward can be recorded"
    text = f"runs in Python, which a file cannot hold: {t.reason}. {remedy[0].upper()}{remedy[1:]}"
    raise LayerError(text, t.node.place)


def attributes_of(node: Node) -> dict[str, Any]:
    """Return a node's params as attributes: one flat dict of numbers, strings, arrays and lists of one type.

    Raises LayerError for a param that is something else.
    """
    attributes: dict[str, Any] = {}
    for name, value in opencv_params(node.params, node.defaults).items():
        several = isinstance(value, (tuple, list))
        values = [_scalar(v) for v in value] if several else [_scalar(value)]
        kinds = {type(v) for v in values}
        if kinds == {int, float}:
            values, kinds = [float(v) for v in values], {float}
        if not values or kinds == {type(None)}:
            continue
        if len(kinds) > 1 or not kinds <= {int, float, str, bytes, np.ndarray}:
            raise LayerError(
                f"cannot be kept: parameter '{name}' is {value!r}, and attributes are numbers, strings, arrays "
                "and lists of one type",
                node.place,
            )
        attributes[name] = values if several else values[0]
    return attributes


def _scalar(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, int):  # bool and Flag included
        return int(value)
    return str(value) if isinstance(value, str) else value
