"""Put the bodies of a graph's functions where they are called."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anylayer.errors import NetworkError, at, nearest, need
from anylayer.layer import Registry
from anylayer.readers.tensorflow.graph import MOST_NODES, Function, GraphNode, Placeholder, nodes_of
from anylayer.readers.tensorflow.messages import Record, pairs
from anylayer.readers.tensorflow.structure import CALLS, PASSES

_DEEPEST = 64


@dataclass(frozen=True, slots=True)
class Body:
    """A function of the library: its arguments, its operations, and what it gives."""

    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: Sequence[Record]
    gives: Mapping[str, str]


def library(record: Record) -> dict[str, Body]:
    """The functions of a FunctionDefLibrary, by name."""
    found = {}
    for function in record.all("function"):
        signature = function.record("signature")
        name = signature.last("name", "")
        inputs, outputs = (
            tuple(a.last("name", "") for a in signature.all(k)) for k in ("input_arg", "output_arg")
        )
        found[name] = Body(name, inputs, outputs, function.all("node_def"), dict(pairs(function.all("ret"))))
    return found


def reference(text: str) -> tuple[str, int]:
    """ "name:1" as the node's name and the output's number."""
    name, colon, number = text.rpartition(":")
    if colon and number.isdigit() and len(number) < 7:
        return name, int(number)
    return text, 0


def spelled(name: str, index: int) -> str:
    """A node's output as an input names it."""
    return f"{name}:{index}" if index else name


def called(node: GraphNode, functions: Mapping[str, Body]) -> str:
    """The name of the function that an operation calls, "" where it calls none."""
    function = node.attrs.get("f")
    if node.op in CALLS and isinstance(function, Function):
        return function.name
    return node.op if node.op in functions else ""


class Inliner:
    """Replaces calls by the nodes of the functions they call, named "call/node"."""

    def __init__(self, functions: Mapping[str, Body], file: str) -> None:
        self.functions, self.file = functions, file
        self.alias: dict[str, str] = {}
        """An output of a call -> what it is, spelled as inputs are."""
        self._count = 0
        self._bodies: dict[str, list[GraphNode]] = {}

    def graph(self, nodes: Sequence[GraphNode]) -> list[GraphNode]:
        """The nodes with every call replaced, and every input named anew."""
        flat: list[GraphNode] = []
        for node in nodes:
            self._add(flat, node, 0)
        for node in flat:
            node.inputs = [self.resolved(i) for i in node.inputs if not i.startswith("^")]
        return flat

    def resolved(self, text: str) -> str:
        """What an input is once calls are replaced."""
        name = spelled(*reference(text))
        seen = 0
        while name in self.alias:
            name = self.alias[name]
            seen += 1
            need(
                seen <= len(self.alias),
                "the functions give each other's results in a cycle",
                NetworkError,
            )
        return name

    def _add(self, flat: list[GraphNode], node: GraphNode, depth: int) -> None:
        self._count += 1
        need(
            self._count <= MOST_NODES,
            f"with its functions put in, the graph has more than {MOST_NODES} operations",
            NetworkError,
        )
        name = called(node, self.functions)
        if not name:
            flat.append(node)
            return
        with at(node.place(self.file)):
            if name not in self.functions:
                raise NetworkError(
                    f"calls function '{name}', which the graph lacks{nearest(name, self.functions)}"
                )
            need(depth < _DEEPEST, f"functions call each other deeper than {_DEEPEST}", NetworkError)
            function = node.attrs.get("f")
            attrs = function.attrs if isinstance(function, Function) else node.attrs
            self._inline(flat, node, self.functions[name], attrs, depth)

    def _inline(
        self, flat: list[GraphNode], call: GraphNode, body: Body, attrs: Mapping[str, Any], depth: int
    ) -> None:
        given = [i for i in call.inputs if not i.startswith("^")]
        need(
            len(given) == len(body.inputs),
            f"function '{body.name}' takes {len(body.inputs)} arguments, got {len(given)}",
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
                {k: _given(v, attrs) for k, v in node.attrs.items()},
                node.line,
            )
            for node in self._bodies[body.name]
        ]
        for number, name in enumerate(body.outputs):
            need(
                name in body.gives,
                f"function '{body.name}' does not say what its result '{name}' is",
                NetworkError,
            )
            self.alias[spelled(call.name, number)] = scope.input(body.gives[name])
        for node in inner:
            self._add(flat, node, depth + 1)


def _given(value: Any, attrs: Mapping[str, Any]) -> Any:
    """An attribute's value, where the function leaves it to its caller: the caller's."""
    return attrs.get(value.name) if isinstance(value, Placeholder) else value


class _Scope:
    """The names inside one call of a function."""

    def __init__(self, prefix: str, arguments: Mapping[str, str]) -> None:
        self.prefix, self.arguments = prefix, arguments
        self.ops: dict[str, GraphNode] = {}

    def input(self, text: str) -> str:
        """An input of a function's node ("argument", "node:result:0"), as a graph's node spells it."""
        if text.startswith("^"):
            return "^" + self.prefix + text[1:]
        if text in self.arguments:
            return self.arguments[text]
        name, _, rest = text.partition(":")
        argument, _, number = rest.partition(":") if not rest.isdigit() else ("", "", rest)
        need(
            number.isdigit() and len(number) < 7 if number else not rest,
            f"input '{text}' is none of a function's: 'argument' or 'node:result:number'",
            NetworkError,
        )
        index = int(number or 0)
        if argument and name in self.ops:
            index += _offset(self.ops[name], argument)
        return spelled(self.prefix + name, index)


def _offset(node: GraphNode, argument: str) -> int:
    """How many outputs of an operation come before those of result `argument`."""
    if node.op in CALLS or node.op in PASSES:
        return 0
    found: Any = next((d.cls for d in Registry.of("tensorflow").find(node.op) if d.typed), None)
    before = 0
    for name, count in found.results(node.attrs) if found is not None else ():
        if name == argument:
            return before
        before += count
    return 0
