"""A graph's operations, sorted and pruned, to a Network."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import FileError, NetworkError, at, nearest, need
from anylayer.layer import Registry
from anylayer.network import Array, Network, Node, TensorType
from anylayer.readers._tree import shown
from anylayer.readers.tensorflow.axes import Axes
from anylayer.readers.tensorflow.branches import take_known
from anylayer.readers.tensorflow.factors import factors
from anylayer.readers.tensorflow.functions import Body, called, reference, spelled
from anylayer.readers.tensorflow.graph import Function, GraphNode, Placeholder, Tensor
from anylayer.readers.tensorflow.structure import CONSTANT, FRAMES, INPUTS, PASSES, QUANTIZED, SILENT, VARIABLES
from anylayer.readers.tensorflow.tensors import NUMPY

_MOST_OUTPUTS = 10_000


@dataclass(slots=True)
class Graph:
    """A graph without functions: its operations by name, and what the file calls its inputs and outputs.

    `inputs` and `outputs` map public names to values; inputs that are not named are called as their operations.
    `values` are constants that stand for an operation's output (variables).
    """

    file: str
    nodes: dict[str, GraphNode]
    inputs: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, str] = field(default_factory=dict)
    values: Mapping[str, Array] = field(default_factory=dict)
    weights: str = ""
    notes: list[str] = field(default_factory=list)


def by_name(nodes: Iterable[GraphNode]) -> dict[str, GraphNode]:
    """The operations by name; refuse a name given twice."""
    found: dict[str, GraphNode] = {}
    for node in nodes:
        need(node.name not in found, f"two operations are named '{node.name}'", NetworkError)
        found[node.name] = node
    return found


def build(graph: Graph, user_types: frozenset[str]) -> Network:
    """The Network of what the outputs depend on. Raises NetworkError for what it cannot hold."""
    take_known(graph.nodes, graph.values)
    outputs = graph.outputs
    need(
        outputs,
        "the graph has no output: there is no operation that computes anything",
        NetworkError,
    )
    for name in outputs.values():
        _known(graph, reference(name)[0], f"output '{name}'")
    nodes = _ordered(graph, outputs.values())
    _refuse(graph, nodes)
    return _Builder(graph, nodes, user_types).network(outputs)


def _known(graph: Graph, name: str, what: str) -> GraphNode:
    if name not in graph.nodes:
        raise NetworkError(f"{what}: there is no operation '{name}'{nearest(name, graph.nodes)}")
    return graph.nodes[name]


def ends(nodes: Sequence[GraphNode], functions: Mapping[str, Body], user_types: frozenset[str]) -> list[str]:
    """The outputs of operations nobody reads."""
    read = {reference(i)[0] for node in nodes for i in node.inputs if not i.startswith("^")}
    found: list[str] = []
    for node in nodes:
        if node.name in read or node.op in SILENT or node.op in INPUTS or node.op == CONSTANT:
            continue
        body = called(node, functions)
        cls = None if node.op in user_types or body else _class(node.op)
        count = len(functions[body].outputs) if body in functions else 1
        if cls is not None:
            count = min(_count(node, cls), cls.shown)
        found += [spelled(node.name, index) for index in range(count)]
    return found


def _class(op: str) -> Any:
    """The class of a built-in operation, or None."""
    return next((d.cls for d in Registry.of("tensorflow").find(op)), None)


def _count(node: GraphNode, cls: Any) -> int:
    """How many outputs an operation has, by its class."""
    with at(f"layer '{node.name}' ({node.op})"):
        count = sum(n for _, n in cls.results(node.attrs))
        need(0 < count <= _MOST_OUTPUTS, f"has {count} outputs, 1 to {_MOST_OUTPUTS} are possible", NetworkError)
    return int(count)


def _ordered(graph: Graph, wanted: Iterable[str]) -> list[GraphNode]:
    """The operations that the values depend on, each behind what it reads. Raises NetworkError for a cycle."""
    done: set[str] = set()
    path: dict[str, None] = {}
    order: list[GraphNode] = []
    for value in wanted:
        stack = [(reference(value)[0], False)]
        while stack:
            name, left = stack.pop()
            if left:
                del path[name]
                done.add(name)
                order.append(graph.nodes[name])
                continue
            if name in done:
                continue
            if name in path:
                raise _cycle(graph, [*path][[*path].index(name) :])
            path[name] = None
            stack.append((name, True))
            node = graph.nodes[name]
            for text in reversed([] if name in graph.values else node.inputs):
                source = reference(text)[0]
                if source not in graph.nodes:
                    _known(
                        graph, source, f"{node.place(graph.file).removeprefix(graph.file + ': ')} reads '{text}'"
                    )
                stack.append((source, False))
    return order


def _cycle(graph: Graph, names: Sequence[str]) -> NetworkError:
    frames = [n for n in names if graph.nodes[n].op in FRAMES]
    if frames:
        return _no_control_flow(graph, [n for n in graph.nodes.values() if n.op in FRAMES])
    few = " -> ".join(f"'{n}'" for n in [*names[:5], *(["..."] if len(names) > 5 else []), names[0]])
    return NetworkError(f"the operations depend on each other in a cycle: {few}")


def _refuse(graph: Graph, nodes: Sequence[GraphNode]) -> None:
    """Refuse what is no arithmetic on arrays: control flow, quantised operations."""
    flow = [n for n in nodes if n.op in FRAMES]
    if flow:
        raise _no_control_flow(graph, flow)
    variables = [n for n in nodes if n.op in VARIABLES and n.name not in graph.values]
    need(
        not variables,
        f"{len(variables)} variables without values: {_listed(variables)}. Freeze the graph, or read the folder "
        "of its SavedModel",
        NetworkError,
    )
    quantized = [n for n in nodes if n.op.startswith(QUANTIZED)]
    need(
        all(_class(n.op) is not None for n in quantized),
        f"{len(quantized)} quantised operations: {_listed(quantized)}. The network before its "
        "quantisation (float32) can be read",
        NetworkError,
    )


def _no_control_flow(graph: Graph, nodes: Sequence[GraphNode]) -> NetworkError:
    return NetworkError(
        f"{len(nodes)} operations of control flow: {_listed(nodes)}. A network has neither loops nor branches: "
        "freeze it for inference (training=False) and unroll its recurrent layers (Keras: unroll=True), or give "
        "the Keras file itself",
    )


def _listed(nodes: Sequence[GraphNode]) -> str:
    listed = ", ".join(f"'{n.name}' ({n.op})" for n in nodes[:5])
    return listed + (", ..." if len(nodes) > 5 else "")


class _Builder:
    """Makes Nodes of GraphNodes, in order."""

    def __init__(self, graph: Graph, nodes: Sequence[GraphNode], user_types: frozenset[str]) -> None:
        self.graph, self.nodes, self.user_types = graph, nodes, user_types
        self.renamed = {value: name for name, value in graph.inputs.items() if value != name}
        self.axes = Axes(graph.nodes, self._known)
        self.read: dict[str, int] = {}
        for node in nodes:
            for text in node.inputs:
                name, index = reference(text)
                self.read[name] = max(self.read.get(name, 0), index)
        self.inputs: dict[str, TensorType | None] = {}
        self.open: dict[str, tuple[int | None, ...]] = {}
        self.layouts: dict[str, str] = {}
        self.declared: dict[str, TensorType] = {}

    def network(self, outputs: Mapping[str, str]) -> Network:
        """The network with these outputs (public name -> value)."""
        for value in outputs.values():
            name, index = reference(value)
            self.read[name] = max(self.read.get(name, 0), index)
        made = []
        for node in self.nodes:
            with at(node.place(self.graph.file)):
                if node.name in self.graph.values:
                    made.append(self._constant(node, self.graph.values[node.name]))
                elif node.op in INPUTS:
                    self._input(node)
                else:
                    made.append(self._node(node))
        return Network(
            name=self.graph.file.rpartition("/")[2],
            format="tensorflow",
            inputs=self.inputs,
            nodes=_needed(made, outputs.values(), self.renamed),
            outputs={public: self._value(value) for public, value in outputs.items()},
            source=self.graph.file,
            weights=self.graph.weights,
            notes=self.graph.notes,
            open=self.open,
            layouts=self.layouts,
            declared=self.declared,
        )

    def _value(self, text: str) -> str:
        name = spelled(*reference(text))
        return self.renamed.get(name, name)

    def _input(self, node: GraphNode) -> None:
        dtype = node.attrs.get("dtype", node.attrs.get("T", "float32"))
        need(isinstance(dtype, str), f"its dtype must be a type, got {shown(dtype)}", FileError)
        need(
            dtype in NUMPY and dtype != "bfloat16",
            f"an input of {dtype}: only numbers are given to a network. Decode pictures before it, and cut the "
            "graph behind its decoder",
            NetworkError,
        )
        name = self._value(node.name)
        sizes = node.attrs.get("shape")
        self.inputs[name] = None
        if not isinstance(sizes, list) or (not sizes and "_output_shapes" not in node.attrs):
            return
        for d in sizes:
            need(d is None or type(d) is int, f"its shape must be a list of sizes, got {shown(sizes)}", FileError)
        if None in sizes:
            self.open[name] = tuple(sizes)
        if None not in sizes[1:]:
            self.inputs[name] = TensorType.of([1 if d is None else d for d in sizes], np.dtype(dtype))
        if len(sizes) == 4 and sizes[3] in (1, 3, 4):
            self.layouts[name] = "NHWC"

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
        count = self.read.get(node.name, 0) + 1 if custom else _count(node, cls)
        return Node(
            name=node.name,
            type=node.op,
            inputs=[self._value(i) for i in inputs],
            outputs=[self._value(spelled(node.name, i)) for i in range(count)],
            params={"attr": _plain(node.attrs)},
            blobs=blobs,
            place=node.place(self.graph.file),
            layout=self.axes.of(node) if custom else "",
            opencv_layout="NCHW" if custom else "",
        )

    def _declare(self, node: GraphNode) -> None:
        """Enter the shapes that the file states for a custom operation's outputs, as far as no size is open."""
        shapes, dtype = node.attrs.get("_output_shapes"), node.attrs.get("T", "float32")
        dtype = dtype if dtype in NUMPY and dtype != "bfloat16" else "float32"
        for i, shape in enumerate(shapes if isinstance(shapes, list) else ()):
            if isinstance(shape, list) and None not in shape:
                self.declared[self._value(spelled(node.name, i))] = TensorType.of(shape, dtype)

    def _blobs(self, node: GraphNode) -> tuple[list[str], list[Array]]:
        """A custom operation's inputs and blobs: constants are blobs of two axes or more, as OpenCV gives them."""
        inputs, blobs = [], []
        for text in node.inputs:
            found = self._known(text)
            scales = factors(self.graph.nodes, node, text, self._known) if found is None else None
            if found is not None:
                blobs.append(np.atleast_2d(found))
            elif scales is not None:
                blobs.extend(scales)
            else:
                inputs.append(text)
        return inputs, blobs

    def _known(self, text: str) -> Array | None:
        """The values of a constant, also behind operations that give it as it is; None for anything else."""
        for _ in range(len(self.graph.nodes)):
            name, index = reference(text)
            node = self.graph.nodes[name]
            if name in self.graph.values:
                return self.graph.values[name]
            if node.op == CONSTANT and not index:
                with at(node.place(self.graph.file)):
                    return _tensor(node)
            if node.op not in PASSES or not node.inputs:
                return None
            text = node.inputs[0]
        return None


def _tensor(node: GraphNode) -> Array:
    value = node.attrs.get("value")
    if not isinstance(value, Tensor):
        raise FileError("a constant without a value")
    return value.array()


def _plain(attrs: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes as params have them: a tensor as an array where it can be, a function as its name."""
    plain: dict[str, Any] = {}
    for name, value in attrs.items():
        if isinstance(value, (Function, Placeholder)):
            plain[name] = value.name
        elif isinstance(value, Tensor):
            plain[name] = value.array() if value.dtype in NUMPY else value.dtype
        elif isinstance(value, list):
            plain[name] = [v.name if isinstance(v, (Function, Placeholder)) else v for v in value]
        elif value is not None:
            plain[name] = value
    return plain


def _needed(nodes: Sequence[Node], outputs: Iterable[str], renamed: Mapping[str, str]) -> list[Node]:
    """The nodes still read, now that custom operations hold their constants."""
    wanted = {renamed.get(v, v) for v in (spelled(*reference(o)) for o in outputs)}
    kept = []
    for node in reversed(nodes):
        if wanted.intersection(node.outputs):
            wanted.update(node.inputs)
            kept.append(node)
    return kept[::-1]
