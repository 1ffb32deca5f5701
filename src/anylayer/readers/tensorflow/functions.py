"""Inline the functions of a graph: replace each call by the operations of the function's body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anylayer.errors import NetworkError, at, nearest, need, plural
from anylayer.layer import Registry
from anylayer.readers._limits import MAX_NESTING, MAX_NODES
from anylayer.readers.tensorflow.graph import AttrPlaceholder, AttrValue, FunctionRef, GraphNode, nodes_of
from anylayer.readers.tensorflow.messages import Record, map_entries
from anylayer.readers.tensorflow.structure import CALLS, IDENTITIES


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
    found = {}
    for function in record.all("function"):
        signature = function.record("signature")
        name = signature.last("name", "")
        inputs, outputs = (
            tuple(a.last("name", "") for a in signature.all(k)) for k in ("input_arg", "output_arg")
        )
        found[name] = Body(name, inputs, outputs, function.all("node_def"), dict(map_entries(function.all("ret"))))
    return found


def parse_name(text: str) -> tuple[str, int]:
    """Return the operation and the index of the output that a tensor's name refers to: ("name", 1) for
    "name:1".
    """
    name, colon, number = text.rpartition(":")
    if colon and number.isdigit() and len(number) < 7:
        return name, int(number)
    return text, 0


def tensor_name(name: str, index: int) -> str:
    """Return the name of an operation's output: "name" for output 0, "name:1" for output 1."""
    return f"{name}:{index}" if index else name


def normalized(text: str) -> str:
    """Return a tensor's name without the index if it is 0: "name" for "name:0"."""
    return tensor_name(*parse_name(text))


def called_function(node: GraphNode, functions: Mapping[str, Body]) -> str:
    """Return the name of the function that an operation calls, or "" if it is not a call."""
    function = node.attrs.get("f")
    if node.op in CALLS and isinstance(function, FunctionRef):
        return function.name
    return node.op if node.op in functions else ""


class Inliner:
    """The replacement of calls by the operations of the called functions, which are named "call/operation"."""

    def __init__(self, functions: Mapping[str, Body], file: str) -> None:
        self.functions, self.file = functions, file
        self.alias: dict[str, str] = {}
        """Maps each output of a call to the value that replaces it."""
        self._count = 0
        self._bodies: dict[str, list[GraphNode]] = {}

    def graph(self, nodes: Sequence[GraphNode]) -> list[GraphNode]:
        """Return the operations with every call replaced.

        Inputs name the new producers; control inputs are dropped.
        """
        flat: list[GraphNode] = []
        for node in nodes:
            self._add(flat, node, 0)
        for node in flat:
            node.inputs = [self.resolved(i) for i in node.inputs if not i.startswith("^")]
        return flat

    def resolved(self, text: str) -> str:
        """Return the value that an input refers to after calls are replaced."""
        name = normalized(text)
        seen = 0
        while name in self.alias:
            name = self.alias[name]
            seen += 1
            need(seen <= len(self.alias), "the functions return each other's results in a cycle", NetworkError)
        return name

    def _add(self, flat: list[GraphNode], node: GraphNode, depth: int) -> None:
        self._count += 1
        need(
            self._count <= MAX_NODES,
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
        given = [i for i in call.inputs if not i.startswith("^")]
        need(
            len(given) == len(body.inputs),
            f"function '{body.name}' takes {plural(len(body.inputs), 'argument')}, got {len(given)}",
            NetworkError,
        )
        scope = _Scope(call.name + "/", dict(zip(body.inputs, given)))
        if body.name not in self._bodies:
            self._bodies[body.name] = nodes_of(list(body.nodes), self.file)
        scope.ops = {n.name: n for n in self._bodies[body.name]}
        inner = [
            GraphNode(
                scope.prefix + node.name,
                node.op,
                [scope.input(i) for i in node.inputs],
                {k: _bound(v, attrs) for k, v in node.attrs.items()},
                node.line,
            )
            for node in self._bodies[body.name]
        ]
        for number, name in enumerate(body.outputs):
            need(
                name in body.results,
                f"function '{body.name}' does not define its result '{name}'",
                NetworkError,
            )
            self.alias[tensor_name(call.name, number)] = scope.input(body.results[name])
        for node in inner:
            self._add(flat, node, depth + 1)


def _bound(value: AttrValue, attrs: Mapping[str, AttrValue]) -> AttrValue:
    """Return an attribute's value. If it is a placeholder, return the value that the caller passes."""
    return attrs.get(value.name) if isinstance(value, AttrPlaceholder) else value


class _Scope:
    """The names inside one call of a function."""

    def __init__(self, prefix: str, arguments: Mapping[str, str]) -> None:
        self.prefix, self.arguments = prefix, arguments
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
            index += _offset(self.ops[name], argument)
        return tensor_name(self.prefix + name, index)


def _offset(node: GraphNode, argument: str) -> int:
    """Return the number of outputs of an operation before those of its result `argument`."""
    if node.op in CALLS or node.op in IDENTITIES:
        return 0
    found: Any = next((d.cls for d in Registry.of("tensorflow").find(node.op) if d.typed), None)
    before = 0
    for name, count in found.results(node.attrs) if found is not None else ():
        if name == argument:
            return before
        before += count
    return 0
