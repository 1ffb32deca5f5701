"""Make a plan from traced nodes: concatenate their graphs, and cut only around host calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anylayer.compile.comparison import Compiler
from anylayer.compile.inputs import needed_nodes
from anylayer.compile.limits import graph_memory, need_memory
from anylayer.compile.nodes import Definitions, trace_nodes
from anylayer.errors import InputError, LayerError, NetworkError, need, wording
from anylayer.graph import Graph, Value
from anylayer.layer.native import NativeNode
from anylayer.network import Array, Network, Node, TensorType, open_text, shapes_wording
from anylayer.source import TracedNode


@dataclass(slots=True)
class GraphStep:
    """One call of an engine: the graph, and the names of its inputs and outputs in the network.

    `engine` is the engine that runs it where the plan's graphs run on several engines; "" for the plan's own.
    """

    graph: Graph
    inputs: list[str]
    outputs: list[str]
    engine: str = ""


@dataclass(slots=True)
class HostStep:
    """One layer that runs in Python."""

    traced: TracedNode


@dataclass(slots=True)
class KernelStep:
    """One layer that a native kernel computes."""

    traced: TracedNode
    kernel: NativeNode


Step = GraphStep | HostStep | KernelStep


@dataclass(slots=True)
class Plan:
    """The steps that compute a network's outputs from its inputs. `inputs` maps the name of each input to its
    type, and `outputs` maps public names to names of values. `types` and `constants` map names of values. `nodes`
    are the traced nodes from which the steps were made.
    """

    inputs: dict[str, TensorType]
    outputs: dict[str, str]
    types: dict[str, TensorType]
    steps: list[Step]
    nodes: list[TracedNode]
    constants: dict[str, Array]
    source: str = ""
    """The network's file, for error messages."""

    @property
    def graphs(self) -> list[Graph]:
        """The graphs that engines run, in computing order."""
        return [step.graph for step in self.steps if isinstance(step, GraphStep)]

    @property
    def native(self) -> list[tuple[str, str, str]]:
        """Return (node, layer type, library) for each layer that a native kernel computes."""
        kernels = [
            (t, t.bound.definition.kernel) for t in self.nodes if t.kernel is not None and t.bound is not None
        ]
        return [(t.node.name, t.node.type, kernel.origin) for t, kernel in kernels if kernel is not None]

    @property
    def host_calls(self) -> list[tuple[str, str, str]]:
        """Return (node, layer type, reason) for each layer that runs in Python."""
        return [(t.node.name, t.node.type, t.reason) for t in self.nodes if t.is_host_call]

    @property
    def engine_layers(self) -> list[tuple[str, list[str]]]:
        """Return (engine, names of its layers) for each graph that names its engine, in computing order."""
        steps = [step for step in self.steps if isinstance(step, GraphStep) and step.engine]
        return [(step.engine, [*dict.fromkeys(o.scope for o in step.graph.ops)]) for step in steps]

    @property
    def whole(self) -> Plan:
        """The plan of one graph from which this plan was cut into graphs that name engines; else this plan."""
        if not self.engine_layers:
            return self
        nodes = [t for t in self.nodes if t.body is not None]
        return replace(self, steps=[concatenated(nodes, set(self.outputs.values()), self.constants)])


def make_plan(
    network: Network,
    definitions: Definitions,
    inputs: Mapping[str, TensorType | None],
    outputs: Mapping[str, str],
    *,
    check: Sequence[Compiler] = (),
) -> Plan:
    """Trace the nodes that `outputs` depend on, and group them into steps.

    check: the compiler of the engine on which users' layers are compared with their traces, and those of engines
    that may run a layer instead. Raises InputError where the type of an input is not known, LayerError where a
    layer's weights are missing or a rule is broken, and EngineError where the network needs more memory than
    there is.
    """
    known_inputs = require_types(network, inputs)
    nodes = needed_nodes(network, outputs)
    traced = list(trace_nodes(network, nodes, definitions, inputs, check=check))
    refuse_unfilled(network, traced)
    types = dict(known_inputs)
    constants: dict[str, Any] = {"": None}
    for t in traced:
        types.update({name: kind for name, kind in zip(t.node.outputs, t.outputs) if kind is not None})
        constants.update({t.node.outputs[i]: c for i, c in t.constants.items()})
    for public, value in outputs.items():
        need(value in types, f"blob '{public}' is not produced", NetworkError)
    steps = _cut(traced, set(outputs.values()), constants)
    for step in steps:
        if isinstance(step, GraphStep):
            need_memory(graph_memory(step.graph), f"{network.source}: the network")
    return Plan(known_inputs, dict(outputs), types, steps, traced, constants, network.source)


def require_types(network: Network, inputs: Mapping[str, TensorType | None]) -> dict[str, TensorType]:
    """Return the types of the inputs. Raises InputError where one is not known."""
    unknown = {name: network.open.get(name) for name, t in inputs.items() if t is None}
    for name, open_shape in unknown.items():
        what = f"is {open_text(open_shape)} in the file" if open_shape else "is not in the file"
        how = shapes_wording(unknown, network.sizes)
        raise InputError(f"{network.source}: the shape of input '{name}' {what}. Give {how}")
    return {name: t for name, t in inputs.items() if t is not None}


def refuse_unfilled(network: Network, traced: Sequence[TracedNode]) -> None:
    """Raise LayerError where layers have no weights. It names the first and counts the others."""
    unfilled = [t for t in traced if t.bound is not None and t.bound.unfilled]
    if not unfilled:
        return
    first = unfilled[0]
    others = f" and those of {len(unfilled) - 1} more" if len(unfilled) > 1 else ""
    raise no_weights(network, first.node, first.bound.unfilled if first.bound else [], others)


def no_weights(network: Network, node: Node, unfilled: Sequence[str], others: str = "") -> LayerError:
    """Return the error for a node whose weights `unfilled` are missing.

    others: text that counts further nodes, or "".
    """
    what = "weights" if set(unfilled) <= {"weights"} else f"weights ({', '.join(unfilled)})"
    file = f"are not in {network.weights}" if network.weights else "are not given"
    remedy = f"Give the {network.weights_file} that belongs to this file"
    if not network.weights:
        remedy += ", or random weights: " + wording("net.fill()", "--random-weights")
    return LayerError(f"its {what}{others} {file}. {remedy}", node.place)


NATIVE_DOMAIN = "anylayer.native"
"""The domain of the operator NativeLayer, whose attribute `kernel` is the NativeNode that computes it."""


def with_native_operators(plan: Plan, fits: Callable[[NativeNode], bool]) -> Plan:
    """Return the plan with the native layers that `fits` accepts as operators of its graphs. Return the plan
    itself if there are none. A native layer that reads a constant remains a step.
    """
    embedded = {
        id(t): replace(t, kernel=None, body=_native_body(t, t.kernel))
        for t in plan.nodes
        if t.kernel is not None
        and not t.constants
        and all(kind is not None for kind in [*t.inputs, *t.outputs])
        and not any(name in plan.constants for name in t.node.inputs)
        and fits(t.kernel)
    }
    if not embedded:
        return plan
    nodes = [embedded.get(id(t), t) for t in plan.nodes]
    return replace(plan, steps=_cut(nodes, set(plan.outputs.values()), plan.constants))


def _native_body(traced: TracedNode, kernel: NativeNode) -> Graph:
    """Return a graph of one operator that stands for a native layer."""
    graph = Graph()
    inputs = [
        graph.input(f"x_{i}", kind.shape, kind.dtype) for i, kind in enumerate(traced.inputs) if kind is not None
    ]
    types = [(kind.shape, kind.dtype) for kind in traced.outputs if kind is not None]
    graph.outputs = graph.emit(
        "NativeLayer", inputs, types, {"kernel": kernel}, place=traced.node.place, domain=NATIVE_DOMAIN, kept=True
    )
    return graph


def _cut(traced: Sequence[TracedNode], outputs: set[str], constants: Mapping[str, Array]) -> list[Step]:
    """Return the steps of a plan: one graph for all nodes that the same number of host calls precede.

    The number is that of the longest chain of host calls before the node, so a graph ends only where Python runs.
    """
    level: dict[str, int] = {}
    graphs: dict[int, list[TracedNode]] = {}
    hosts: dict[int, list[TracedNode]] = {}
    for t in traced:
        at_level = max((level.get(name, 0) for name in t.node.inputs), default=0)
        if t.is_host_call or t.kernel is not None:
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
        read_later = outputs.union(*(t.node.inputs for t in later))
        if k in graphs:
            step = concatenated(graphs[k], read_later, constants)
            if step.outputs:
                steps.append(step)
        for t in hosts.get(k, ()):
            steps.append(HostStep(t) if t.kernel is None else KernelStep(t, t.kernel))
    return steps


def concatenated(part: Sequence[TracedNode], outputs_read: set[str], constants: Mapping[str, Array]) -> GraphStep:
    """Return one graph that contains the bodies of the nodes `part`. Its outputs are those in `outputs_read`."""
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
    produced = {name for t in part for name in t.node.outputs}
    outputs = [name for name in values if name in outputs_read and name in produced and name not in constants]
    graph.outputs = [values[name] for name in outputs]
    return GraphStep(graph, inputs, outputs)
