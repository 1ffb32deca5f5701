"""From a graph's operations to a Network: sort and prune them, and refuse what is not supported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anylayer.errors import FileError, NetworkError, at, nearest, need, some
from anylayer.layer import Registry
from anylayer.network import Array, Network, Node, Subgraph, TensorType, nodes_behind
from anylayer.protobuf.tree import shortened_text
from anylayer.readers._limits import MAX_GRAPH_NESTING, MAX_OPERATION_OUTPUTS
from anylayer.readers._names import layer_place
from anylayer.readers.tensorflow.branches import remove_constant_branches
from anylayer.readers.tensorflow.custom import Layouts, resize_factors
from anylayer.readers.tensorflow.frames import has_branches, has_frames, structured_branches, structured_loops
from anylayer.readers.tensorflow.functions import (
    Body,
    Inliner,
    called_function,
    parse_name,
    tensor_name,
    without_identities,
    without_index_0,
)
from anylayer.readers.tensorflow.graph import (
    AttrPlaceholder,
    AttrValue,
    FunctionRef,
    GraphNode,
    Inside,
    StoredTensor,
)
from anylayer.readers.tensorflow.structure import (
    CONSTANT,
    CONTROL_FLOW,
    EXITS,
    IDENTITIES,
    INNER,
    INPUTS,
    NEVER_OUTPUTS,
    QUANTIZED,
    VARIABLES,
)
from anylayer.readers.tensorflow.tensors import READABLE


@dataclass(slots=True)
class InlinedGraph:
    """A graph whose functions are inlined, with its operations by name.

    `inputs` and `outputs` map public names to values. An input that is not in `inputs` has the name of its
    operation. `values` maps variables to their values.
    """

    file: str
    nodes: dict[str, GraphNode]
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    weights: str = ""
    notes: list[str] = field(default_factory=list)
    inliner: Inliner | None = None


def build(graph: InlinedGraph, user_types: frozenset[str], depth: int = 0) -> Network:
    """Return the Network of the operations that the outputs depend on.

    depth: how many networks are around it.

    Raise NetworkError for a graph without outputs, a missing input, a cycle, and operations that are not
    supported.
    """
    need(graph.outputs, "the graph has no output, because no operation computes anything", NetworkError)
    for name in graph.outputs.values():
        _need_operation(graph, parse_name(name)[0], f"output '{name}'")
    if has_frames(graph.nodes.values()):
        graph.nodes, graph.outputs = structured_loops(graph.nodes, graph.outputs, graph.values)
    remove_constant_branches(graph.nodes, graph.values)
    if has_branches(graph.nodes.values()):
        graph.nodes, graph.outputs = structured_branches(graph.nodes, graph.outputs, graph.values)
    nodes = _in_computing_order(graph, graph.outputs.values())
    _refuse_unsupported(graph, nodes)
    return _NetworkBuilder(graph, nodes, user_types, depth).network(graph.outputs)


def _need_operation(graph: InlinedGraph, name: str, what: str) -> None:
    if name not in graph.nodes:
        raise NetworkError(f"{what}: there is no operation '{name}'{nearest(name, graph.nodes)}")


def unconsumed_outputs(
    nodes: Sequence[GraphNode], functions: Mapping[str, Body], user_types: frozenset[str]
) -> list[str]:
    """Return the outputs of the operations without consumers. They are the outputs of a graph that names none."""
    read = {parse_name(i)[0] for node in nodes for i in node.inputs if not i.startswith("^")}
    waited_for = {i[1:] for node in nodes for i in node.inputs if i.startswith("^")}
    constants = {n.name for n in nodes if n.op == CONSTANT}
    names: list[str] = []
    others: list[str] = []  # last values of a loop's variables, identities of constants or for an order only
    for node in nodes:
        if node.name in read or node.op in NEVER_OUTPUTS or node.op in INPUTS or node.op == CONSTANT:
            continue
        body = called_function(node, functions)
        cls = None if node.op in user_types or body else _class(node.op)
        count = len(functions[body].outputs) if body in functions else 1
        if cls is not None:
            count = min(_output_count(node, cls), cls.shown)
        is_other = node.op in EXITS or (
            node.op in IDENTITIES
            and (node.name in waited_for or not constants.isdisjoint(parse_name(i)[0] for i in node.inputs))
        )
        (others if is_other else names).extend(tensor_name(node.name, index) for index in range(count))
    return names or others


def _class(op: str) -> Any:
    """Return the class of a built-in operation, or None."""
    return next((d.cls for d in Registry.of("tensorflow").find(op)), None)


def _output_count(node: GraphNode, cls: Any) -> int:
    """Return the number of outputs of an operation with a built-in class."""
    with at(layer_place(node.name, node.op)):
        count = sum(n for _, n in cls.results(node.attrs))
        rule = f"the number of its outputs is {count}, expected 1 to {MAX_OPERATION_OUTPUTS}"
        need(0 < count <= MAX_OPERATION_OUTPUTS, rule, NetworkError)
    return int(count)


def _in_computing_order(graph: InlinedGraph, values: Iterable[str]) -> list[GraphNode]:
    """Return the operations that the wanted values depend on, each after its producers.

    Raise NetworkError for a cycle and for a missing operation.
    """
    placed: set[str] = set()
    path: dict[str, None] = {}
    order: list[GraphNode] = []
    for value in values:
        stack = [(parse_name(value)[0], False)]
        while stack:
            name, left = stack.pop()
            if left:
                del path[name]
                placed.add(name)
                order.append(graph.nodes[name])
                continue
            if name in placed:
                continue
            if name in path:
                raise _cycle(graph, [*path][[*path].index(name) :])
            path[name] = None
            stack.append((name, True))
            node = graph.nodes[name]
            for text in reversed([] if name in graph.values else node.inputs):
                source = parse_name(text)[0]
                if source not in graph.nodes:
                    place = node.place(graph.file).removeprefix(f"{graph.file}: ")
                    _need_operation(graph, source, f"{place} reads '{text}'")
                stack.append((source, False))
    return order


def _cycle(graph: InlinedGraph, names: Sequence[str]) -> NetworkError:
    frames = [n for n in names if graph.nodes[n].op in CONTROL_FLOW]
    if frames:
        return _no_control_flow([n for n in graph.nodes.values() if n.op in CONTROL_FLOW])
    few = " -> ".join(f"'{n}'" for n in [*names[:5], *(["..."] if len(names) > 5 else []), names[0]])
    return NetworkError(f"the operations depend on each other in a cycle: {few}")


def _refuse_unsupported(graph: InlinedGraph, nodes: Sequence[GraphNode]) -> None:
    """Raise NetworkError for control flow, variables without values, and quantized operations."""
    flow = [n for n in nodes if n.op in CONTROL_FLOW]
    if flow:
        raise _no_control_flow(flow)
    variables = [n for n in nodes if n.op in VARIABLES and n.name not in graph.values]
    need(
        not variables,
        f"{len(variables)} variables have no values: {_listing(variables)}. Freeze the graph, or read the folder "
        "of its SavedModel",
        NetworkError,
    )
    quantized = [n for n in nodes if n.op.startswith(QUANTIZED)]
    need(
        all(_class(n.op) is not None for n in quantized),
        f"{len(quantized)} quantized operations are not supported: {_listing(quantized)}. Read the float32 "
        "network from before its quantization",
        NetworkError,
    )


def _no_control_flow(nodes: Sequence[GraphNode]) -> NetworkError:
    return NetworkError(
        f"{len(nodes)} operations of control flow are not supported: {_listing(nodes)}. They form neither a loop "
        "nor a branch as TensorFlow writes them. Freeze the graph for inference (training=False), or read the "
        "Keras file itself"
    )


def _listing(nodes: Sequence[GraphNode]) -> str:
    return some([f"'{n.name}' ({n.op})" for n in nodes], 5)


class _NetworkBuilder:
    """A builder of a Network from GraphNodes in computing order."""

    def __init__(
        self, graph: InlinedGraph, nodes: Sequence[GraphNode], user_types: frozenset[str], depth: int
    ) -> None:
        self.graph, self.nodes, self.user_types, self.depth = graph, nodes, user_types, depth
        self.renamed = {value: name for name, value in graph.inputs.items() if value != name}
        self.data_layouts = Layouts(graph.nodes, self._constant_values)
        self.last_output: dict[str, int] = {}  # the index of the last output that is read of each operation
        for node in nodes:
            for text in node.inputs:
                self._mark_read(text)
        file = graph.file
        name = file.rpartition("/")[2]
        weights, notes = graph.weights, graph.notes
        self.built = Network(name, "tensorflow", {}, [], {}, source=file, weights=weights, notes=notes)

    def network(self, outputs: Mapping[str, str]) -> Network:
        """Return the network with the given outputs, which map public names to values."""
        for value in outputs.values():
            self._mark_read(value)
        network_nodes, network = [], self.built
        for node in self.nodes:
            with at(node.place(self.graph.file)):
                if node.name in self.graph.values:
                    network_nodes.append(self._constant(node, self.graph.values[node.name]))
                elif node.op in INPUTS:
                    self._input(node)
                else:
                    network_nodes.append(self._node(node))
        network.outputs = {public: self._value(value) for public, value in outputs.items()}
        network.nodes = nodes_behind(network_nodes, network.outputs.values())  # constants may have become blobs
        return network

    def _mark_read(self, text: str) -> None:
        name, index = parse_name(text)
        self.last_output[name] = max(self.last_output.get(name, 0), index)

    def _value(self, text: str) -> str:
        """Return the network's name of a value."""
        name = without_index_0(text)
        return self.renamed.get(name, name)

    def _input(self, node: GraphNode) -> None:
        dtype = node.attrs.get("dtype", node.attrs.get("T", "float32"))
        if not isinstance(dtype, str):
            raise FileError(f"its dtype must be a type, got {shortened_text(dtype)}")
        need(
            dtype in READABLE and dtype != "bfloat16",
            f"inputs of type {dtype} are not supported. Cut the graph after the operations that decode pictures, "
            "and decode them yourself",
            NetworkError,
        )
        name = self._value(node.name)
        sizes = node.attrs.get("shape")
        stated = "_output_shapes" in node.attrs or dtype in ("bool", "int32", "int64")
        if not isinstance(sizes, list) or (not sizes and not stated):  # [] may also stand for an unknown shape
            self.built.add_input(name, None, dtype)
            return
        for d in sizes:
            need(
                d is None or type(d) is int,
                f"its shape must be a list of sizes, got {shortened_text(sizes)}",
                FileError,
            )
        self.built.add_input(name, sizes, dtype, channels_last=True)

    def _constant(self, node: GraphNode, array: Array) -> Node:
        return Node(
            name=node.name,
            type=CONSTANT,
            inputs=[],
            outputs=[self._value(node.name)],
            params={"attr": {"dtype": array.dtype.name}},
            blobs=[array],
            place=node.place(self.graph.file),
        )

    def _node(self, node: GraphNode) -> Node:
        if node.op == CONSTANT:
            return self._constant(node, _tensor(node))
        cls = _class(node.op)
        custom = node.op in self.user_types or cls is None
        inputs = list(node.inputs)
        blobs: list[Array] = []
        if custom:
            inputs, blobs = self._blobs(node)
            self._declare(node)
        count = self.last_output.get(node.name, 0) + 1 if custom else _output_count(node, cls)
        return Node(
            name=node.name,
            type=node.op,
            inputs=[self._value(i) for i in inputs],
            outputs=[self._value(tensor_name(node.name, i)) for i in range(count)],
            params={"attr": {**_param_values(node.attrs), **self._inner_networks(node)}},
            blobs=blobs,
            place=node.place(self.graph.file),
            layout=self.data_layouts.of(node) if custom else "",
            opencv_layout="NCHW" if custom else "",
        )

    def _inner_networks(self, node: GraphNode) -> dict[str, Subgraph]:
        """Return the networks inside an operation, by the attributes that state them."""
        inner: dict[str, Subgraph] = {}
        for name, value in node.attrs.items():
            if (
                isinstance(value, FunctionRef)
                and name in INNER.get(node.op, ())
                and self.graph.inliner is not None
            ):
                value = self.graph.inliner.inside(value)
            if not isinstance(value, Inside):
                continue
            rule = f"its networks are nested deeper than {MAX_GRAPH_NESTING}"
            need(self.depth < MAX_GRAPH_NESTING, rule, NetworkError)
            outputs = {str(i): output for i, output in enumerate(value.outputs)}
            graph = replace(self.graph, nodes=dict(value.nodes), inputs={}, outputs=outputs, values={}, notes=[])
            network = build(graph, self.user_types, self.depth + 1)
            network.inputs = dict.fromkeys(value.inputs)
            inner[name] = Subgraph(network, [])
        return inner

    def _declare(self, node: GraphNode) -> None:
        """Store the static shapes that the file states for the outputs of a custom operation."""
        shapes, dtype = node.attrs.get("_output_shapes"), node.attrs.get("T", "float32")
        if not isinstance(dtype, str) or dtype not in READABLE or dtype == "bfloat16":
            dtype = "float32"
        for i, shape in enumerate(shapes if isinstance(shapes, list) else ()):
            if isinstance(shape, list) and all(type(d) is int for d in shape):
                self.built.declared[self._value(tensor_name(node.name, i))] = TensorType.of(shape, dtype)

    def _blobs(self, node: GraphNode) -> tuple[list[str], list[Array]]:
        """Return the inputs and the blobs of a custom operation.

        Its constant inputs become blobs with at least two axes, as in OpenCV.
        """
        inputs, blobs = [], []
        for text in node.inputs:
            constant = self._constant_values(text)
            scales = (
                resize_factors(self.graph.nodes, node, text, self._constant_values) if constant is None else None
            )
            if constant is not None:
                blobs.append(np.atleast_2d(constant))
            elif scales is not None:
                blobs.extend(scales)
            else:
                inputs.append(text)
        return inputs, blobs

    def _constant_values(self, text: str) -> Array | None:
        """Return the values of an input that is a constant or an identity of one.

        Return None for another input.
        """
        name, index = without_identities(self.graph.nodes, text)
        if name in self.graph.values:
            return self.graph.values[name]
        node = self.graph.nodes[name]
        if node.op != CONSTANT or index:
            return None
        with at(node.place(self.graph.file)):
            return _tensor(node)


def _tensor(node: GraphNode) -> Array:
    value = node.attrs.get("value")
    if not isinstance(value, StoredTensor):
        raise FileError("the constant has no value")
    return value.array()


def _param_values(attrs: Mapping[str, AttrValue]) -> dict[str, Any]:
    """Return attributes as a node's params: a tensor becomes an array, or its dtype's name if it is not readable.

    A function becomes its name.
    """
    params: dict[str, Any] = {}
    for name, value in attrs.items():
        if isinstance(value, (FunctionRef, AttrPlaceholder)):
            params[name] = value.name
        elif isinstance(value, StoredTensor):
            params[name] = value.array() if value.dtype in READABLE else value.dtype
        elif isinstance(value, list):
            params[name] = [v.name if isinstance(v, (FunctionRef, AttrPlaceholder)) else v for v in value]
        elif value is not None and not isinstance(value, Inside):
            params[name] = value
    return params
