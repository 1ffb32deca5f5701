"""Inline the functions of a graph: replace each call by the operations of the function's body."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from anylayer.errors import NetworkError, at, nearest, need, plural
from anylayer.layer import Registry
from anylayer.readers._limits import MAX_IDENTITIES, MAX_NESTING, MAX_NODES
from anylayer.readers.tensorflow.graph import AttrPlaceholder, AttrValue, FunctionRef, GraphNode, Inside, nodes_of
from anylayer.readers.tensorflow.messages import Record, map_entries
from anylayer.readers.tensorflow.structure import ARGUMENT, CALLS, IDENTITIES


@dataclass(frozen=True, slots=True)
class Body:
    """A function of the graph's library.

    `results` maps each output to the value inside the body that it returns.
    """

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: Sequence[Record]
    results: Mapping[str, str]


def functions_of(record: Record) -> dict[str, Body]:
    """Return the functions of a FunctionDefLibrary, by name."""
    bodies = {}
    for function in record.all("function"):
        signature = function.record("signature")
        name = signature.last("name", "")
        inputs, outputs = (
            tuple(a.last("name", "") for a in signature.all(k)) for k in ("input_arg", "output_arg")
        )
        bodies[name] = Body(
            name, inputs, outputs, function.all("node_def"), dict(map_entries(function.all("ret")))
        )
    return bodies


def declared_results(meta: Record) -> dict[str, list[tuple[str, str]]]:
    """Return the results of each operation that a MetaGraphDef declares.

    Each result is its name, and the attribute that states its number of outputs, "" for one output.
    """
    return {
        op.last("name", ""): [
            (result.last("name", ""), result.last("number_attr", "") or result.last("type_list_attr", ""))
            for result in op.all("output_arg")
        ]
        for op in meta.record("meta_info_def").record("stripped_op_list").all("op")
    }


def parse_name(text: str) -> tuple[str, int]:
    """Return the operation and the index of the output that a tensor's name means: ("name", 1) for "name:1"."""
    name, colon, number = text.rpartition(":")
    if colon and number.isdigit() and len(number) < 7:
        return name, int(number)
    return text, 0


def tensor_name(name: str, index: int) -> str:
    """Return the name of an operation's output: "name" for output 0, "name:1" for output 1."""
    return f"{name}:{index}" if index else name


def without_index_0(text: str) -> str:
    """Return a tensor's name without the index if it is 0: "name" for "name:0"."""
    return tensor_name(*parse_name(text))


def without_identities(nodes: Mapping[str, GraphNode], text: str) -> tuple[str, int]:
    """Return the operation that computes a value, and the index of its output, behind identities."""
    name, index = parse_name(text)
    for _ in range(MAX_IDENTITIES):
        node = nodes.get(name)
        if node is None or node.op not in IDENTITIES or not node.inputs:
            break
        name, index = parse_name(node.inputs[0])
    return name, index


def called_function(node: GraphNode, functions: Mapping[str, Body]) -> str:
    """Return the name of the function that an operation calls, or "" if it is not a call."""
    function = node.attrs.get("f")
    if node.op in CALLS and isinstance(function, FunctionRef):
        return function.name
    return node.op if node.op in functions else ""


def by_name(nodes: Iterable[GraphNode]) -> dict[str, GraphNode]:
    """Return the operations by name. Raise NetworkError for a name that occurs twice."""
    nodes_by_name: dict[str, GraphNode] = {}
    for node in nodes:
        need(node.name not in nodes_by_name, f"two operations are named '{node.name}'", NetworkError)
        nodes_by_name[node.name] = node
    return nodes_by_name


class Inliner:
    """The replacement of calls by the operations of the called functions, which are named "call/operation".

    `declared` are the results of operations that the file declares; see `declared_results`.
    """

    def __init__(
        self, functions: Mapping[str, Body], file: str, declared: Mapping[str, list[tuple[str, str]]] | None = None
    ) -> None:
        self.functions, self.file, self.declared = functions, file, declared or {}
        self.alias: dict[str, str] = {}
        """Maps each output of a call to the value that replaces it."""
        self._count = [0]
        self._bodies: dict[str, list[GraphNode]] = {}

    def graph(self, nodes: Sequence[GraphNode]) -> list[GraphNode]:
        """Return the operations with every call replaced.

        Inputs name the new producers; control inputs are dropped.
        """
        flat: list[GraphNode] = []
        for node in nodes:
            self._add(flat, node, 0)
        for node in flat:
            node.inputs = [self.resolve(i) for i in node.inputs if not i.startswith("^")]
        return flat

    def inside(self, function: FunctionRef) -> Inside:
        """Return the operations of a function that an operation runs, for example in each step of a loop."""
        name = function.name
        need(
            name in self.functions,
            f"it runs function '{name}', which is missing in the graph{nearest(name, self.functions)}",
            NetworkError,
        )
        body = self.functions[name]
        inner = Inliner(self.functions, self.file, self.declared)
        inner._count, inner._bodies = self._count, self._bodies
        call = GraphNode(name, name, list(body.inputs), {**function.attrs})
        flat = inner.graph([*(GraphNode(n, ARGUMENT, [], {}) for n in body.inputs), call])
        outputs = [inner.resolve(tensor_name(name, i)) for i in range(len(body.outputs))]
        return Inside(by_name(flat), body.inputs, outputs)

    def resolve(self, text: str) -> str:
        """Return the value that an input refers to after calls are replaced."""
        name = without_index_0(text)
        seen = 0
        while name in self.alias:
            name = self.alias[name]
            seen += 1
            need(seen <= len(self.alias), "the functions return each other's results in a cycle", NetworkError)
        return name

    def _add(self, flat: list[GraphNode], node: GraphNode, depth: int) -> None:
        self._count[0] += 1
        need(
            self._count[0] <= MAX_NODES,
            f"with its functions inlined, the graph has more than {MAX_NODES} operations",
            NetworkError,
        )
        name = called_function(node, self.functions)
        if not name:
            flat.append(node)
            return
        with at(node.place(self.file)):
            if name not in self.functions:
                raise NetworkError(
                    f"it calls function '{name}', which is missing in the graph{nearest(name, self.functions)}"
                )
            need(depth < MAX_NESTING, f"function calls are nested deeper than {MAX_NESTING}", NetworkError)
            function = node.attrs.get("f")
            attrs = function.attrs if isinstance(function, FunctionRef) else node.attrs
            self._inline(flat, node, self.functions[name], attrs, depth)

    def _inline(
        self, flat: list[GraphNode], call: GraphNode, body: Body, attrs: Mapping[str, AttrValue], depth: int
    ) -> None:
        arguments = [i for i in call.inputs if not i.startswith("^")]
        need(
            len(arguments) == len(body.inputs),
            f"function '{body.name}' takes {plural(len(body.inputs), 'argument')}, got {len(arguments)}",
            NetworkError,
        )
        scope = _Scope(call.name + "/", dict(zip(body.inputs, arguments)), self._outputs_before)
        if body.name not in self._bodies:
            self._bodies[body.name] = nodes_of(list(body.nodes), self.file)
        inner = [
            replace(node, attrs={k: _bound(v, attrs) for k, v in node.attrs.items()})
            for node in self._bodies[body.name]
        ]
        scope.ops = {node.name: replace(node) for node in inner}
        for node in inner:
            node.name, node.inputs = scope.prefix + node.name, [scope.input(i) for i in node.inputs]
        for number, name in enumerate(body.outputs):
            need(name in body.results, f"function '{body.name}' does not define its result '{name}'", NetworkError)
            self.alias[tensor_name(call.name, number)] = scope.input(body.results[name])
        for node in inner:
            self._add(flat, node, depth + 1)

    def _outputs_before(self, node: GraphNode, result: str) -> int:
        """Return the number of outputs of an operation before those of one of its results.

        Raise NetworkError if the operation has no such result, or if the file does not say which results it has.
        """
        if node.op in CALLS or node.op in IDENTITIES:
            return 0
        results = self._results(node)
        if len(results) == 1:
            return 0  # names of results are those of TensorFlow's operation, which a class with one need not state
        names = [name for name, _ in results]
        need(
            result in names,
            f"'{node.name}' ({node.op}) has no result '{result}'; it has: {', '.join(names)}",
            NetworkError,
        )
        return sum(count for _, count in results[: names.index(result)])

    def _results(self, node: GraphNode) -> Sequence[tuple[str, int]]:
        """Return the names of an operation's results and the number of outputs of each."""
        built_in: Any = next((d.cls for d in Registry.of("tensorflow").find(node.op) if d.typed), None)
        if node.op in self.functions:
            return [(name, 1) for name in self.functions[node.op].outputs]
        if built_in is not None:
            return list(built_in.results(node.attrs))
        shapes = node.attrs.get("_output_shapes")
        need(
            node.op in self.declared or (isinstance(shapes, list) and len(shapes) == 1),
            f"a function reads results of '{node.name}' ({node.op}) by name, and the file does not declare the "
            "results of this operation. Read the SavedModel, which declares them, or inline the functions when "
            "you freeze the graph",
            NetworkError,
        )
        return [(name, _count(node.attrs, states)) for name, states in self.declared.get(node.op, [("", "")])]


def _count(attrs: Mapping[str, AttrValue], name: str) -> int:
    """Return the number of outputs that an attribute states: a number, or a list of types. Return 1 for ""."""
    value = attrs.get(name, 1)
    return len(value) if isinstance(value, list) else int(value) if isinstance(value, int) else 1


def _bound(value: AttrValue, attrs: Mapping[str, AttrValue]) -> AttrValue:
    """Return an attribute's value. If it is a placeholder, return the value that the caller passes."""
    return attrs.get(value.name) if isinstance(value, AttrPlaceholder) else value


class _Scope:
    """The names inside one call of a function."""

    def __init__(
        self, prefix: str, arguments: Mapping[str, str], outputs_before: Callable[[GraphNode, str], int]
    ) -> None:
        self.prefix, self.arguments, self.outputs_before = prefix, arguments, outputs_before
        self.ops: dict[str, GraphNode] = {}

    def input(self, text: str) -> str:
        """Return the graph's name of an input inside a function: "argument" or "node:result:0"."""
        if text.startswith("^"):
            return "^" + self.prefix + text[1:]
        if text in self.arguments:
            return self.arguments[text]
        name, _, rest = text.partition(":")
        argument, _, number = rest.partition(":") if not rest.isdigit() else ("", "", rest)
        need(
            number.isdigit() and len(number) < 7 if number else not rest,
            f"input '{text}' of a function must be 'argument' or 'node:result:number'",
            NetworkError,
        )
        index = int(number or 0)
        if argument and name in self.ops:
            index += self.outputs_before(self.ops[name], argument)
        return tensor_name(self.prefix + name, index)
