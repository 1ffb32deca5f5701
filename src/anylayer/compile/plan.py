"""From traced nodes to a plan: their bodies joined into graphs that are cut only around host calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anylayer.compile.comparison import Compiler
from anylayer.compile.limits import graph_memory, need_memory
from anylayer.compile.nodes import Definitions, Traced, needed_nodes, trace_nodes
from anylayer.errors import InputError, LayerError, NetworkError, need, offers, shape_wording, wording
from anylayer.graph import Graph, Value
from anylayer.network import Array, Network, Node, TensorType, open_text


@dataclass(slots=True)
class GraphStep:
    """One call into an engine."""

    graph: Graph
    inputs: list[str]
    outputs: list[str]


@dataclass(slots=True)
class HostStep:
    """One layer that runs in Python."""

    traced: Traced


Step = GraphStep | HostStep


@dataclass(slots=True)
class Plan:
    """What it takes to compute `outputs` (public name -> value) from `inputs` (value -> type)."""

    inputs: dict[str, TensorType]
    outputs: dict[str, str]
    types: dict[str, TensorType]
    steps: list[Step]
    nodes: list[Traced]
    constants: dict[str, Array]
    source: str = ""
    """The network's file, which errors of engines name."""

    @property
    def host_calls(self) -> list[tuple[str, str, str]]:
        """(node, type, reason) of every layer that runs in Python."""
        return [(t.node.name, t.node.type, t.reason) for t in self.nodes if t.is_host_call]


def make_plan(
    network: Network,
    definitions: Definitions,
    inputs: Mapping[str, TensorType | None],
    outputs: Mapping[str, str],
    *,
    check: Compiler | None = None,
) -> Plan:
    """Trace all that `outputs` need and join it into steps. Every input's type must be known."""
    plain = require_types(network, inputs)
    nodes = needed_nodes(network, outputs)
    traced = list(trace_nodes(network, nodes, definitions, inputs, check=check))
    refuse_unfilled(network, traced)
    types = dict(plain)
    constants: dict[str, Any] = {"": None}
    for t in traced:
        types.update({name: kind for name, kind in zip(t.node.outputs, t.outputs) if kind is not None})
        constants.update({t.node.outputs[i]: c for i, c in t.constants.items()})
    for public, value in outputs.items():
        need(value in types, f"blob '{public}' is not produced", NetworkError)
    steps = _cut(traced, set(outputs.values()), types, constants)
    for step in steps:
        if isinstance(step, GraphStep):
            need_memory(graph_memory(step.graph), f"{network.source}: the network")
    return Plan(plain, dict(outputs), types, steps, traced, constants, network.source)


def require_types(network: Network, inputs: Mapping[str, TensorType | None]) -> dict[str, TensorType]:
    """The inputs' types. Raises InputError where one is not known."""
    for name, t in inputs.items():
        if t is None:
            known = network.open.get(name)
            what = f"is {open_text(known)} in the file" if known else "is not in the file"
            raise InputError(f"{network.source}: the shape of input '{name}' {what}. Give {shape_wording(name)}")
    return {name: t for name, t in inputs.items() if t is not None}


def refuse_unfilled(network: Network, traced: Sequence[Traced]) -> None:
    """Raise LayerError for the nodes whose weights nobody has given."""
    bare = [t for t in traced if t.bound is not None and t.bound.unfilled]
    if not bare:
        return
    first = bare[0]
    others = f" and those of {len(bare) - 1} more" if len(bare) > 1 else ""
    raise no_weights(network, first.node, first.bound.unfilled if first.bound else [], others)


def no_weights(network: Network, node: Node, unfilled: Sequence[str], others: str = "") -> LayerError:
    """The error for a node without its weights, which are called `unfilled`; `others` tells of more nodes."""
    what = "weights" if set(unfilled) <= {"weights"} else f"weights ({', '.join(unfilled)})"
    file = f"are not in {network.weights}" if network.weights else "are not given"
    remedy = f"Give the {_WEIGHTS.get(network.format, 'weights file')} that belongs to this file"
    if not network.weights and offers("--random-weights"):
        remedy += ", or random weights: " + wording("net.fill()", "--random-weights")
    return LayerError(f"its {what}{others} {file}. {remedy}", node.place)


_WEIGHTS = {"caffe": ".caffemodel", "keras": ".weights.h5", "openvino": ".bin"}
"""What the weights of a format's networks are in."""


def _cut(
    traced: Sequence[Traced], wanted: set[str], types: Mapping[str, TensorType], constants: Mapping[str, Array]
) -> list[Step]:
    """Group the nodes by how many host calls precede them, so that a graph ends only where Python must run."""
    level: dict[str, int] = {}
    graphs: dict[int, list[Traced]] = {}
    hosts: dict[int, list[Traced]] = {}
    for t in traced:
        at_level = max((level.get(name, 0) for name in t.node.inputs), default=0)
        if t.is_host_call:
            hosts.setdefault(at_level, []).append(t)
            at_level += 1
        elif t.body is not None:
            graphs.setdefault(at_level, []).append(t)
        level.update(dict.fromkeys(t.node.outputs, at_level))
    steps: list[Step] = []
    for k in range(max([*graphs, *hosts, 0]) + 1):
        later = [t for j, ts in graphs.items() if j > k for t in ts] + [
            t for j, ts in hosts.items() if j >= k for t in ts
        ]
        read_later = wanted.union(*(t.node.inputs for t in later))
        if k in graphs:
            step = _join(graphs[k], read_later, types, constants)
            if step.outputs:
                steps.append(step)
        steps.extend(HostStep(t) for t in hosts.get(k, ()))
    return steps


def _join(
    part: Sequence[Traced], wanted: set[str], types: Mapping[str, TensorType], constants: Mapping[str, Array]
) -> GraphStep:
    """One graph of the bodies of `part`."""
    graph = Graph()
    values: dict[str, Value] = {}
    for t in part:
        arguments = []
        for name, kind in zip(t.node.inputs, t.inputs):
            if name in constants:
                continue
            if name not in values and kind is not None:
                values[name] = graph.input(name, kind.shape, kind.dtype)
            arguments.append(values[name])
        if t.body is not None:
            results = graph.inline(t.body, arguments, scope=t.node.name)
            values.update(zip(t.node.outputs, results))
    inputs = [v.name for v in graph.inputs]
    own = {name for t in part for name in t.node.outputs}
    outputs = [name for name in values if name in wanted and name in own and name not in constants]
    graph.outputs = [values[name] for name in outputs]
    return GraphStep(graph, inputs, outputs)
