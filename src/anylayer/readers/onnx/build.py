"""From a model's nodes to a Network: values, constants, attributes, graphs inside nodes."""

from __future__ import annotations

import heapq
from collections import ChainMap
from collections.abc import Mapping
from typing import Any

import numpy as np

from anylayer.errors import NetworkError, at, nearest, need
from anylayer.layer import Registry
from anylayer.libraries.onnx import TensorProto, latest, onnx
from anylayer.network import Array, Network, Node, Subgraph, TensorType, as_written
from anylayer.readers.onnx.file import Model
from anylayer.readers.onnx.functions import Functions, Scope, bound_attributes, domain_of, opsets
from anylayer.readers.onnx.tensors import Tensors, tensor_dtype

_CONSTANT = "Constant"
_FORMAT = "onnx"
_DEEP = 32
_AXES = 32
_ARRAYS = frozenset(int(n) for n in TensorProto.DataType.values()) - {TensorProto.UNDEFINED, TensorProto.STRING}
_KIND = onnx.AttributeProto


def build(model: Model, user_types: frozenset[str]) -> Network:
    """The network of a model. Raises FileError, NetworkError."""
    proto = model.proto
    known = opsets(proto)
    if "" not in known:
        known[""] = 1 if proto.ir_version < 3 else latest()
    need(
        0 < known[""] <= latest(),
        f"its operator set is {known['']}; the installed onnx package knows 1 to {latest()}: pip install -U onnx",
        NetworkError,
    )
    tensors = Tensors(model)
    builder = _Builder(tensors, Functions(proto, user_types), user_types)
    constants = {s.proto.name: tensors.stored(s) for s in model.stored if s.proto.name}
    network = builder.network(proto.graph, Scope(known), constants, str(model.path), {})
    for told in proto.metadata_props:  # as anylayer's own writer says how pictures lie
        name = told.key.removeprefix("layout:")
        if name != told.key and name in network.inputs and told.value in ("NCHW", "NHWC"):
            network.layouts[name] = told.value
    if proto.training_info:
        network.notes.append("what the file has for training is left out")
    return network


class _Builder:
    """Builds the network of a graph and of those inside its nodes."""

    def __init__(self, tensors: Tensors, functions: Functions, user_types: frozenset[str]) -> None:
        self._tensors, self._functions, self._users = tensors, functions, user_types
        self._standard: set[str] | None = None

    def network(
        self, graph: Any, scope: Scope, constants: dict[str, Array], source: str, outer: Mapping[str, Any]
    ) -> Network:
        """The network of `graph`. `outer` are the values around it, with the array of those that are constant."""
        for one in graph.sparse_initializer:
            constants[scope.value(one.values.name)] = self._tensors.sparse(one)
        for one in graph.initializer:  # of graphs inside nodes
            constants[scope.value(one.name)] = self._tensors.array(one)
        network = Network(graph.name or _FORMAT, _FORMAT, {}, [], {}, source=source)
        for info in graph.input:
            name = scope.value(info.name)
            if name not in constants:
                need(name not in network.inputs, f"input '{name}' is there twice", NetworkError)
                _input(network, name, info)
        drafts = []
        for node, inner in self._functions.flat(graph.node, scope):
            draft = _Draft(node, inner)
            if not self._is_constant(draft, constants):
                drafts.append(draft)
        own = self._nodes(network, drafts, constants, outer)
        for info in graph.output:
            name = scope.value(info.name)
            if name not in own and name not in outer:
                raise NetworkError(f"output '{info.name}' is produced by no node{nearest(name, own)}")
            network.outputs[info.name] = name
        for info in (*graph.value_info, *graph.output):
            _declare(network, scope.value(info.name), info)
        _place_constants(network, constants)
        return network

    def _is_constant(self, draft: _Draft, constants: dict[str, Array]) -> bool:
        """Whether a node only gives an array, which then is entered."""
        node = draft.proto
        if node.op_type != _CONSTANT or domain_of(node.domain) or _CONSTANT in self._users:
            return False
        name = draft.scope.value(node.output[0]) if len(node.output) == 1 else ""
        with at(_place("", node.name or name, _CONSTANT)):
            need(name, f"it has {len(node.output)} outputs, one is needed", NetworkError)
            need(name not in constants, f"value '{name}' is produced twice", NetworkError)
            constants[name] = self._value(node, draft.scope)
        return True

    def _value(self, node: Any, scope: Scope) -> Array:
        found = list(bound_attributes(node, scope))
        need(len(found) == 1, f"it has {len(found)} attributes, one is needed", NetworkError)
        one = found[0]
        value = self._attribute(one)
        if isinstance(value, np.ndarray):
            return value
        floats = one.type in (_KIND.FLOAT, _KIND.FLOATS)
        need(floats or one.type in (_KIND.INT, _KIND.INTS), "it holds strings", NetworkError)
        return np.array(value, np.float32 if floats else np.int64)

    def _nodes(
        self,
        network: Network,
        drafts: list[_Draft],
        constants: dict[str, Array],
        outer: Mapping[str, Any],
    ) -> Mapping[str, Any]:
        """Enter the nodes in computing order; give the values there are, with the arrays of those constant."""
        own: dict[str, Any] = {**dict.fromkeys(network.inputs), **constants}
        taken: set[str] = set()
        for i, draft in enumerate(drafts):
            draft.name = _unique(draft, i, taken)
            draft.inputs = [draft.scope.value(n) for n in draft.proto.input]
            draft.outputs = _outputs(draft)
            for name in draft.outputs:
                need(name not in own, f"value '{name}' is produced twice", NetworkError)
                own[name] = None
        values = ChainMap(own, outer)  # type: ignore[arg-type]
        nodes = []
        for draft in drafts:
            with at(_place("", draft.name, draft.proto.op_type)):
                nodes.append(self._node(draft, values, network.source))
        network.nodes = _sorted(nodes, {"", *network.inputs, *constants}, own)
        return own

    def _node(self, draft: _Draft, values: Mapping[str, Any], source: str) -> Node:
        proto = draft.proto
        domain = domain_of(proto.domain)
        type_ = self._type(proto.op_type, domain)
        for name in draft.inputs:
            if name and name not in values:
                raise NetworkError(f"input '{name}' is produced by no node{nearest(name, values)}")
        attributes: dict[str, Any] = {}
        captured: list[str] = []
        for one in bound_attributes(proto, draft.scope):
            need(one.name not in attributes, f"attribute '{one.name}' is there twice", NetworkError)
            if one.type == _KIND.GRAPH:
                inner = self._subgraph(one.g, draft, values)
                captured += inner.captured
                attributes[one.name] = inner
            else:
                attributes[one.name] = self._attribute(one)
        node = Node(draft.name, type_, [*draft.inputs, *captured], draft.outputs, {"attribute": attributes})
        node.domain, node.version = domain, draft.scope.opsets.get(domain, 0)
        node.place = _place(source, node.name, type_)
        if type_ in self._users or (domain and type_ not in self._built_in()):
            node.blobs = [values[n] for n in node.inputs if isinstance(values.get(n), np.ndarray)]
            node.inputs = [n for n in node.inputs if not isinstance(values.get(n), np.ndarray)]
        return node

    def _type(self, op: str, domain: str) -> str:
        """The layer type of an operator: its name; with its domain where ONNX has another one of that name."""
        if not domain:
            return op
        full = f"{domain}.{op}"
        if full in self._users:
            return full
        if op in self._users:
            return op
        return full if op in self._built_in() or full in self._built_in() else op

    def _built_in(self) -> set[str]:
        """The types that this package defines."""
        if self._standard is None:
            self._standard = set(Registry.of(_FORMAT).types())
        return self._standard

    def _subgraph(self, graph: Any, draft: _Draft, values: Mapping[str, Any]) -> Subgraph:
        """A graph inside a node; what it reads of the values around it is captured."""
        scope = draft.scope
        need(scope.depth < _DEEP, f"graphs lie in one another more than {_DEEP} deep", NetworkError)
        own = [i.name for i in graph.input] + [i.name for i in graph.initializer]
        own += [i.values.name for i in graph.sparse_initializer] + [n for node in graph.node for n in node.output]
        prefix = f"{draft.name}/{graph.name or 'graph'}/"
        names = {**scope.names, **{n: f"{prefix}{n}" for n in own if n}}
        inner = Scope(scope.opsets, scope.prefix, names, scope.attributes, scope.depth + 1)
        network = self.network(graph, inner, {}, "", values)
        inside = {"", *network.inputs, *(n for node in network.nodes for n in node.outputs)}
        read = [n for node in network.nodes for n in node.inputs] + list(network.outputs.values())
        captured = [n for n in dict.fromkeys(read) if n not in inside]
        network.inputs.update(dict.fromkeys(captured))
        return Subgraph(network, captured)

    def _attribute(self, one: Any) -> Any:
        """An attribute's plain value."""
        kind = one.type or _guess(one)
        with at(f"attribute '{one.name}'"):
            if kind == _KIND.TENSOR:
                return self._tensors.array(one.t)
            if kind == _KIND.TENSORS:
                return [self._tensors.array(t) for t in one.tensors]
            if kind == _KIND.STRING:
                return one.s.decode("utf-8", "backslashreplace")
            if kind == _KIND.STRINGS:
                return [s.decode("utf-8", "backslashreplace") for s in one.strings]
            if kind == _KIND.FLOAT:
                return as_written(one.f)
            if kind == _KIND.INT:
                return int(one.i)
            if kind == _KIND.FLOATS:
                return [as_written(v) for v in one.floats]
            if kind == _KIND.INTS:
                return [int(v) for v in one.ints]
            if kind == _KIND.SPARSE_TENSOR:
                return self._tensors.sparse(one.sparse_tensor)
            name = _KIND.AttributeType.Name(kind) if kind in _KIND.AttributeType.values() else kind
            raise NetworkError(f"is of type {name}, which is not read")


class _Draft:
    """A node on its way into the network."""

    __slots__ = ("inputs", "name", "outputs", "proto", "scope")

    def __init__(self, proto: Any, scope: Scope) -> None:
        self.proto, self.scope = proto, scope
        self.name = ""
        self.inputs: list[str] = []
        self.outputs: list[str] = []


def _place(source: str, name: str, type_: str) -> str:
    return f"{source}: layer '{name}' ({type_})" if source else f"layer '{name}' ({type_})"


def _unique(draft: _Draft, i: int, taken: set[str]) -> str:
    """The node's name, made up where the file gives none or gives it twice."""
    wish = draft.scope.prefix + (draft.proto.name or f"{draft.proto.op_type}_{i}")
    name = wish if wish not in taken else f"{wish}#{i}"
    taken.add(name)
    return name


def _outputs(draft: _Draft) -> list[str]:
    """The names of a node's outputs; one that nobody reads gets a name of its own, or is left out at the end."""
    names = list(draft.proto.output)
    while names and not names[-1]:
        names.pop()
    return [draft.scope.value(n) or f"{draft.name}/unused_{i}" for i, n in enumerate(names)]


def _input(network: Network, name: str, info: Any) -> None:
    """Enter an input; sizes that the file leaves open are None in `open`."""
    kind = info.type.WhichOneof("value")
    with at(f"input '{name}'"):
        need(
            kind in ("tensor_type", None),
            f"is a {(kind or '').removesuffix('_type')}: inputs are arrays",
            NetworkError,
        )
        tensor = info.type.tensor_type
        dtype = tensor_dtype(tensor.elem_type) if kind else np.dtype(np.float32)
        if not kind or not tensor.HasField("shape"):
            network.inputs[name], network.dtypes[name] = None, dtype
            return
        sizes = tuple(
            int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim
        )
        need(len(sizes) <= _AXES, f"has {len(sizes)} axes, {_AXES} are the most", NetworkError)
    if None in sizes:
        network.open[name] = sizes
    if None in sizes[1:]:
        network.inputs[name], network.dtypes[name] = None, dtype
    else:
        network.inputs[name] = TensorType(tuple(1 if d is None else d for d in sizes), dtype)


def _declare(network: Network, name: str, info: Any) -> None:
    """Enter the type of a value where the file states all of it; a batch left open is 1, as that of the inputs."""
    tensor = info.type.tensor_type
    if info.type.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
        return
    if tensor.elem_type not in _ARRAYS:
        return
    sizes = [int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim]
    if sizes and sizes[0] is None and network.open and None not in sizes[1:]:
        batched = all(network.inputs[n] is not None and shape[0] is None for n, shape in network.open.items())
        sizes[0] = 1 if batched else None
    if None not in sizes:
        network.declared[name] = TensorType(tuple(d or 0 for d in sizes), tensor_dtype(tensor.elem_type))


def _sorted(nodes: list[Node], known: set[str], own: Mapping[str, Any]) -> list[Node]:
    """The nodes in computing order: the file's, where it is one. Raises NetworkError for a circle."""
    waits: list[int] = []
    readers: dict[str, list[int]] = {}
    for i, node in enumerate(nodes):
        wanted = {n for n in node.inputs if n in own and n not in known}
        waits.append(len(wanted))
        for name in wanted:
            readers.setdefault(name, []).append(i)
    ready = [i for i, count in enumerate(waits) if not count]
    heapq.heapify(ready)
    done: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        done.append(node)
        for name in node.outputs:
            for i in readers.get(name, ()):
                waits[i] -= 1
                if not waits[i]:
                    heapq.heappush(ready, i)
    if len(done) < len(nodes):
        stuck = ", ".join(f"'{n.name}'" for n, count in zip(nodes, waits) if count)
        raise NetworkError(f"these nodes wait for one another in a circle: {stuck[:200]}")
    return done


def _place_constants(network: Network, constants: Mapping[str, Array]) -> None:
    """Put each constant that is read before the first node that reads it."""
    nodes: list[Node] = []
    placed: set[str] = set()

    def place(name: str) -> None:
        if name in constants and name not in placed:
            placed.add(name)
            made = Node(name, _CONSTANT, [], [name], blobs=[constants[name]])
            made.place = _place(network.source, name, _CONSTANT)
            nodes.append(made)

    for node in network.nodes:
        for name in node.inputs:
            place(name)
        nodes.append(node)
    for name in network.outputs.values():
        place(name)
    network.nodes = nodes


def _guess(one: Any) -> int:
    """The type of an attribute of the first files, which leave it out."""
    for field, kind in (("f", _KIND.FLOAT), ("i", _KIND.INT), ("s", _KIND.STRING), ("t", _KIND.TENSOR)):
        if one.HasField(field):
            return int(kind)
    for field, kind in (("floats", _KIND.FLOATS), ("ints", _KIND.INTS), ("strings", _KIND.STRINGS)):
        if len(getattr(one, field)):
            return int(kind)
    return int(_KIND.UNDEFINED)
