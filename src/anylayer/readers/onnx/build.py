"""From a model's nodes to a Network, with values, constants, attributes, subgraphs and functions.

A function's nodes replace each call of it. Source: onnx.proto, FunctionProto; onnx/docs/IR.md, "Model Local
Functions".
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anylayer.errors import NetworkError, at, nearest, need, plural
from anylayer.graph.open_sizes import SIZES, StatedSizes
from anylayer.layer import Registry
from anylayer.libraries.onnx import TensorProto, latest, onnx
from anylayer.network import CHANNEL_ORDERS, MAX_RANK, Array, Network, Node, Subgraph, TensorType, as_written
from anylayer.readers._limits import MAX_GRAPH_NESTING, MAX_NODES
from anylayer.readers._names import layer_place
from anylayer.readers._order import ordered
from anylayer.readers.onnx.file import OnnxModel, Tensors, tensor_dtype

Key = tuple[str, str, str]
"""The domain, the name and the overload of a function."""


@dataclass(slots=True)
class Scope:
    """The graph or function that nodes belong to.

    `opsets` maps domains to versions of operator sets. `prefix` precedes the names of values inside, and `names`
    maps those names inside that have another name in the network. `attributes` are those of the function's call;
    None outside of functions.
    """

    opsets: dict[str, int]
    prefix: str = ""
    names: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, onnx.AttributeProto] | None = None
    depth: int = 0

    def value(self, name: str) -> str:
        """Return the network's name of a value."""
        return self.names.get(name, f"{self.prefix}{name}") if name else ""


def domain_of(name: str) -> str:
    """Return a domain. "" and "ai.onnx" are the same domain, ONNX's own, which is returned as ""."""
    return "" if name == "ai.onnx" else name


def opsets(proto: onnx.ModelProto | onnx.FunctionProto) -> dict[str, int]:
    """Return the versions of the operator sets that a model or function imports, by domain.

    Raise NetworkError if it imports two versions of one domain.
    """
    sets: dict[str, int] = {}
    for opset in proto.opset_import:
        domain = domain_of(opset.domain)
        need(
            sets.get(domain, opset.version) == opset.version,
            f"operator set '{domain or 'ai.onnx'}' is imported twice, as {sets.get(domain)} and {opset.version}",
            NetworkError,
        )
        sets[domain] = int(opset.version)
    return sets


class Functions:
    """The functions of a model. The nodes of the network are counted while functions are inlined."""

    def __init__(self, model: onnx.ModelProto, user_types: frozenset[str]) -> None:
        self._functions: dict[Key, onnx.FunctionProto] = {}
        self._user_types = user_types
        self._nodes = 0
        self._calls = 0
        for function in model.functions:
            key = (domain_of(function.domain), function.name, getattr(function, "overload", ""))
            need(key not in self._functions, f"function '{function.name}' is defined twice", NetworkError)
            self._functions[key] = function

    def _count_node(self) -> None:
        self._nodes += 1
        rule = f"the model has more than {MAX_NODES} nodes, including those of inlined functions"
        need(self._nodes <= MAX_NODES, rule, NetworkError)

    def inline(self, nodes: Iterable[onnx.NodeProto], scope: Scope) -> Iterator[tuple[onnx.NodeProto, Scope]]:
        """Yield the nodes, each with its scope. The nodes of a function replace each call of it."""
        for node in nodes:
            self._count_node()
            function = self._called_function(node)
            if function is None:
                yield node, scope
                continue
            with at(f"function '{node.op_type}'"):
                rule = f"function calls are nested deeper than {MAX_GRAPH_NESTING}; does the function call itself?"
                need(scope.depth < MAX_GRAPH_NESTING, rule, NetworkError)
                yield from self.inline(function.node, self._function_scope(node, function, scope))

    def _called_function(self, node: onnx.NodeProto) -> onnx.FunctionProto | None:
        """Return the function that a node calls, or None if it is an operator or the user defines its type."""
        domain = domain_of(node.domain)
        if node.op_type in self._user_types or f"{domain}.{node.op_type}" in self._user_types:
            return None
        return self._functions.get((domain, node.op_type, getattr(node, "overload", "")))

    def _function_scope(self, node: onnx.NodeProto, function: onnx.FunctionProto, scope: Scope) -> Scope:
        """Return the scope of a function's nodes when `node`, which is in `scope`, calls it."""
        need(
            len(node.input) <= len(function.input) and len(node.output) <= len(function.output),
            f"it has {plural(len(function.input), 'input')} and {plural(len(function.output), 'output')}, but the "
            f"call has {len(node.input)} and {len(node.output)}",
            NetworkError,
        )
        self._calls += 1
        prefix = f"{scope.prefix}{node.name or f'{node.op_type}_{self._calls}'}/"
        names = dict.fromkeys(function.input, "")
        names.update({inner: scope.value(outer) for inner, outer in zip(function.input, node.input)})
        names.update({inner: scope.value(outer) for inner, outer in zip(function.output, node.output) if outer})
        arguments = {a.name: a for a in bound_attributes(node, scope)}
        values = {**{a.name: a for a in function.attribute_proto}, **arguments}
        return Scope({**scope.opsets, **opsets(function)}, prefix, names, values, scope.depth + 1)


def bound_attributes(node: onnx.NodeProto, scope: Scope) -> Iterator[onnx.AttributeProto]:
    """Yield a node's attributes.

    An attribute that refers to one of the function's attributes gets its value, which the call or the function's
    default sets. Without a value it is left out. Raise NetworkError for such an attribute outside of a function.
    """
    for attribute in node.attribute:
        if not attribute.ref_attr_name:
            yield attribute
            continue
        if scope.attributes is None:
            rule = f"attribute '{attribute.name}' refers to '{attribute.ref_attr_name}', but is not in a function"
            raise NetworkError(rule)
        bound = scope.attributes.get(attribute.ref_attr_name)
        if bound is not None:
            renamed = onnx.AttributeProto()
            renamed.CopyFrom(bound)
            renamed.name = attribute.name
            yield renamed


_CONSTANT = "Constant"
_FORMAT = "onnx"
_NUMERIC = frozenset(int(n) for n in TensorProto.DataType.values()) - {TensorProto.UNDEFINED, TensorProto.STRING}
"""The data types of arrays of numbers."""
_Kind = onnx.AttributeProto
Values = MutableMapping[str, "Array | None"]
"""The values that nodes may read, by name: the array of a constant, None for any other value."""


def build(model: OnnxModel, user_types: frozenset[str]) -> Network:
    """Return the network of a model. Raise FileError or NetworkError."""
    proto = model.proto
    versions = opsets(proto)
    if "" not in versions:
        versions[""] = 1 if proto.ir_version < 3 else latest()
    need(
        0 < versions[""] <= latest(),
        f"its operator set is {versions['']}, but the installed onnx package supports 1 to {latest()}: "
        "pip install -U onnx",
        NetworkError,
    )
    tensors = Tensors(model)
    builder = _OnnxBuilder(tensors, Functions(proto, user_types), user_types)
    constants = {i.proto.name: tensors.initializer(i) for i in model.initializers if i.proto.name}
    network = builder.network(proto.graph, Scope(versions), constants, str(model.path), {})
    for entry in proto.metadata_props:  # anylayer's ONNX writer states the layout of pictures there
        name = entry.key.removeprefix("layout:")
        if name != entry.key and name in network.inputs and entry.value in ("NCHW", "NHWC"):
            network.layouts[name] = entry.value
        if entry.key == SIZES:
            network.sizes = StatedSizes.from_json(entry.value)
        if entry.key == CHANNEL_ORDERS:
            network.add_channel_orders(entry.value)
    if proto.training_info:
        network.notes.append("the training information of the file is left out")
    return network


class _OnnxBuilder:
    """A builder of the network of a graph and of the subgraphs inside its nodes."""

    def __init__(self, tensors: Tensors, functions: Functions, user_types: frozenset[str]) -> None:
        self._tensors, self._functions, self._user_types = tensors, functions, user_types
        self._built_in_types: set[str] | None = None

    def network(
        self, graph: onnx.GraphProto, scope: Scope, constants: dict[str, Array], source: str, outer: Values
    ) -> Network:
        """Return the network of a graph.

        `constants` are its initializers that have been read; its constants are added to them. `outer` are the
        values of the surrounding graphs.
        """
        for sparse in graph.sparse_initializer:
            constants[scope.value(sparse.values.name)] = self._tensors.sparse(sparse)
        for tensor in graph.initializer:  # only subgraphs still have initializers
            constants[scope.value(tensor.name)] = self._tensors.array(tensor)
        network = Network(graph.name or _FORMAT, _FORMAT, {}, [], {}, source=source)
        for info in graph.input:
            name = scope.value(info.name)
            if name not in constants:
                need(name not in network.inputs, f"input '{name}' occurs twice", NetworkError)
                _add_input(network, name, info)
        drafts = []
        for node, inner in self._functions.inline(graph.node, scope):
            draft = _Draft(node, inner)
            if not self._add_constant(draft, constants):
                drafts.append(draft)
        produced = self._add_nodes(network, drafts, constants, outer)
        for info in graph.output:
            name = scope.value(info.name)
            if name not in produced and name not in outer:
                raise NetworkError(f"output '{info.name}' is produced by no node{nearest(name, produced)}")
            network.outputs[info.name] = name
        for info in (*graph.value_info, *graph.output):
            _declare(network, scope.value(info.name), info)
        _place_constants(network, constants)
        return network

    def _add_constant(self, draft: _Draft, constants: dict[str, Array]) -> bool:
        """Add the array of a Constant node to the constants. Return False for any other node."""
        node = draft.proto
        if node.op_type != _CONSTANT or domain_of(node.domain) or _CONSTANT in self._user_types:
            return False
        name = draft.scope.value(node.output[0]) if len(node.output) == 1 else ""
        with at(layer_place(node.name or name, _CONSTANT)):
            need(name, f"it has {len(node.output)} outputs, expected 1", NetworkError)
            need(name not in constants, f"value '{name}' is produced twice", NetworkError)
            constants[name] = self._constant_value(node, draft.scope)
        return True

    def _constant_value(self, node: onnx.NodeProto, scope: Scope) -> Array:
        attributes = list(bound_attributes(node, scope))
        need(len(attributes) == 1, f"it has {len(attributes)} attributes, expected 1", NetworkError)
        attribute = attributes[0]
        value = self._attribute_value(attribute)
        if isinstance(value, np.ndarray):
            return value
        floats = attribute.type in (_Kind.FLOAT, _Kind.FLOATS)
        rule = "its value is strings, which are not supported"
        need(floats or attribute.type in (_Kind.INT, _Kind.INTS), rule, NetworkError)
        return np.array(value, np.float32 if floats else np.int64)

    def _add_nodes(
        self, network: Network, drafts: list[_Draft], constants: dict[str, Array], outer: Values
    ) -> Values:
        """Add the nodes in computing order. Return the graph's own values."""
        produced: dict[str, Array | None] = {**dict.fromkeys(network.inputs), **constants}
        names: set[str] = set()
        for i, draft in enumerate(drafts):
            draft.name = _unique_name(draft, i, names)
            draft.inputs = [draft.scope.value(n) for n in draft.proto.input]
            draft.outputs = _output_names(draft)
            for name in draft.outputs:
                need(name not in produced, f"value '{name}' is produced twice", NetworkError)
                produced[name] = None
        values = ChainMap(produced, outer)
        nodes = []
        for draft in drafts:
            with at(layer_place(draft.name, draft.proto.op_type)):
                nodes.append(self._node(draft, values, network.source))
        network.nodes = _in_computing_order(nodes)
        return produced

    def _node(self, draft: _Draft, values: Values, source: str) -> Node:
        proto = draft.proto
        domain = domain_of(proto.domain)
        type_ = self._layer_type(proto.op_type, domain)
        for name in draft.inputs:
            if name and name not in values:
                raise NetworkError(f"input '{name}' is produced by no node{nearest(name, values)}")
        attributes: dict[str, Any] = {}
        inputs = list(draft.inputs)
        for attribute in bound_attributes(proto, draft.scope):
            need(attribute.name not in attributes, f"attribute '{attribute.name}' occurs twice", NetworkError)
            if attribute.type == _Kind.GRAPH:
                network, captured = self._subgraph(attribute.g, draft, values)
                attributes[attribute.name] = Subgraph(network, [len(inputs) + i for i in range(len(captured))])
                inputs += captured
            else:
                attributes[attribute.name] = self._attribute_value(attribute)
        node = Node(draft.name, type_, inputs, draft.outputs, {"attribute": attributes})
        node.domain, node.version = domain, draft.scope.opsets.get(domain, 0)
        node.place = layer_place(node.name, type_, source)
        if type_ in self._user_types or (domain and type_ not in self._built_in()):
            node.blobs = [array for n in node.inputs if (array := values.get(n)) is not None]
            node.inputs = [n for n in node.inputs if values.get(n) is None]
        return node

    def _layer_type(self, op: str, domain: str) -> str:
        """Return the layer type of an operator.

        It is the operator's name, with the domain in front if ONNX or the user distinguishes it from an operator
        of ONNX's own domain.
        """
        if not domain:
            return op
        full = f"{domain}.{op}"
        if full in self._user_types:
            return full
        if op in self._user_types:
            return op
        return full if op in self._built_in() or full in self._built_in() else op

    def _built_in(self) -> set[str]:
        """Return the layer types that this package defines."""
        if self._built_in_types is None:
            self._built_in_types = set(Registry.of(_FORMAT).types())
        return self._built_in_types

    def _subgraph(self, graph: onnx.GraphProto, draft: _Draft, values: Values) -> tuple[Network, list[str]]:
        """Return a graph that is an attribute of a node, and the values of the surrounding graphs that it reads.

        These captured values are the network's last inputs.
        """
        scope = draft.scope
        rule = f"subgraphs are nested deeper than {MAX_GRAPH_NESTING}"
        need(scope.depth < MAX_GRAPH_NESTING, rule, NetworkError)
        local = [i.name for i in graph.input] + [i.name for i in graph.initializer]
        local += [i.values.name for i in graph.sparse_initializer] + [
            n for node in graph.node for n in node.output
        ]
        prefix = f"{draft.name}/{graph.name or 'graph'}/"
        names = {**scope.names, **{n: f"{prefix}{n}" for n in local if n}}
        inner = Scope(scope.opsets, scope.prefix, names, scope.attributes, scope.depth + 1)
        network = self.network(graph, inner, {}, "", values)
        inside = {"", *network.inputs, *(n for node in network.nodes for n in node.outputs)}
        read = [n for node in network.nodes for n in node.inputs] + list(network.outputs.values())
        captured = [n for n in dict.fromkeys(read) if n not in inside]
        network.inputs.update(dict.fromkeys(captured))
        return network, captured

    def _attribute_value(self, attribute: onnx.AttributeProto) -> Any:
        """Return an attribute's value: an int, a float, a str, an array, or a list of these."""
        kind = attribute.type or _guessed_type(attribute)
        with at(f"attribute '{attribute.name}'"):
            if kind == _Kind.TENSOR:
                return self._tensors.array(attribute.t)
            if kind == _Kind.TENSORS:
                return [self._tensors.array(t) for t in attribute.tensors]
            if kind == _Kind.STRING:
                return attribute.s.decode("utf-8", "backslashreplace")
            if kind == _Kind.STRINGS:
                return [s.decode("utf-8", "backslashreplace") for s in attribute.strings]
            if kind == _Kind.FLOAT:
                return as_written(attribute.f)
            if kind == _Kind.INT:
                return int(attribute.i)
            if kind == _Kind.FLOATS:
                return [as_written(v) for v in attribute.floats]
            if kind == _Kind.INTS:
                return [int(v) for v in attribute.ints]
            if kind == _Kind.SPARSE_TENSOR:
                return self._tensors.sparse(attribute.sparse_tensor)
            name = _Kind.AttributeType.Name(kind) if kind in _Kind.AttributeType.values() else kind
            raise NetworkError(f"attributes of type {name} are not supported")


@dataclass(slots=True)
class _Draft:
    """A node before it is added to the network, with its final name and the network's names of its values."""

    proto: onnx.NodeProto
    scope: Scope
    name: str = ""
    inputs: list[str] = field(default_factory=list)
    outputs: list[str] = field(default_factory=list)


def _unique_name(draft: _Draft, i: int, names: set[str]) -> str:
    """Return the name of node `i`.

    A node without a name, or with a name that is taken, gets a name with its number.
    """
    stated = draft.scope.prefix + (draft.proto.name or f"{draft.proto.op_type}_{i}")
    name = stated if stated not in names else f"{stated}#{i}"
    names.add(name)
    return name


def _output_names(draft: _Draft) -> list[str]:
    """Return the names of a node's outputs.

    An output that the file leaves out gets a name of its own, or is omitted at the end of the list.
    """
    names = list(draft.proto.output)
    while names and not names[-1]:
        names.pop()
    return [draft.scope.value(n) or f"{draft.name}/unused_{i}" for i, n in enumerate(names)]


def _add_input(network: Network, name: str, info: onnx.ValueInfoProto) -> None:
    """Add an input. Dynamic sizes are None in `network.open`."""
    kind = info.type.WhichOneof("value")
    with at(f"input '{name}'"):
        need(
            kind in ("tensor_type", None),
            f"inputs of type {(kind or '').removesuffix('_type')} are not supported, only arrays",
            NetworkError,
        )
        tensor = info.type.tensor_type
        dtype = tensor_dtype(tensor.elem_type) if kind else np.dtype(np.float32)
        if not kind or not tensor.HasField("shape"):
            network.add_input(name, None, dtype)
            return
        sizes = tuple(
            int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim
        )
        need(len(sizes) <= MAX_RANK, f"has {len(sizes)} axes; the limit is {MAX_RANK}", NetworkError)
    network.add_input(name, sizes, dtype)


def _declare(network: Network, name: str, info: onnx.ValueInfoProto) -> None:
    """Store the type of a value if the file states all of it. A dynamic batch size is 1, as in the inputs."""
    tensor = info.type.tensor_type
    if info.type.WhichOneof("value") != "tensor_type" or not tensor.HasField("shape"):
        return
    if tensor.elem_type not in _NUMERIC:
        return
    sizes = [int(d.dim_value) if d.HasField("dim_value") and d.dim_value >= 0 else None for d in tensor.shape.dim]
    if sizes and sizes[0] is None and network.open and None not in sizes[1:]:
        batched = all(network.inputs[n] is not None and shape[0] is None for n, shape in network.open.items())
        sizes[0] = 1 if batched else None
    if None not in sizes:
        network.declared[name] = TensorType(tuple(d or 0 for d in sizes), tensor_dtype(tensor.elem_type))


def _in_computing_order(nodes: list[Node]) -> list[Node]:
    """Return the nodes in computing order, which is the file's order if possible."""
    producer = {name: i for i, node in enumerate(nodes) for name in node.outputs}
    producers = {i: {producer[n] for n in node.inputs if n in producer} for i, node in enumerate(nodes)}
    return [nodes[i] for i in ordered(producers, lambda i: nodes[i].name)]


def _place_constants(network: Network, constants: Mapping[str, Array]) -> None:
    """Add a Constant node for each constant that is read, before its first consumer."""
    nodes: list[Node] = []
    placed: set[str] = set()

    def place(name: str) -> None:
        if name in constants and name not in placed:
            placed.add(name)
            node = Node(name, _CONSTANT, [], [name], blobs=[constants[name]])
            node.place = layer_place(name, _CONSTANT, network.source)
            nodes.append(node)

    for node in network.nodes:
        for name in node.inputs:
            place(name)
        nodes.append(node)
    for name in network.outputs.values():
        place(name)
    network.nodes = nodes


def _guessed_type(attribute: onnx.AttributeProto) -> int:
    """Return the type of an attribute without a type, which the oldest files have."""
    for name, kind in (("f", _Kind.FLOAT), ("i", _Kind.INT), ("s", _Kind.STRING), ("t", _Kind.TENSOR)):
        if attribute.HasField(name):
            return int(kind)
    for name, kind in (("floats", _Kind.FLOATS), ("ints", _Kind.INTS), ("strings", _Kind.STRINGS)):
        if len(getattr(attribute, name)):
            return int(kind)
    return int(_Kind.UNDEFINED)
