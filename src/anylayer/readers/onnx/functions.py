"""Functions that a model brings itself: their nodes stand in for every call, with its values and attributes.

Source: onnx.proto FunctionProto; docs/IR.md "Model Local Functions".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from anylayer.errors import NetworkError, at, need
from anylayer.libraries.onnx import onnx

MOST_NODES = 50_000
"""Nodes of a network, those of functions and of graphs inside nodes counted."""
_DEEP = 32

Key = tuple[str, str, str]


@dataclass(slots=True)
class Scope:
    """Where nodes stand: the operator sets they are of, the prefix of their values' names, what a function's
    names mean outside, and its attributes."""

    opsets: dict[str, int]
    prefix: str = ""
    names: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Any] | None = None
    depth: int = 0

    def value(self, name: str) -> str:
        """A value's name in the network."""
        return self.names.get(name, f"{self.prefix}{name}") if name else ""


def domain_of(name: str) -> str:
    """A domain; "" is another name of ONNX's own."""
    return "" if name == "ai.onnx" else name


def opsets(proto: Any) -> dict[str, int]:
    """domain -> version."""
    found: dict[str, int] = {}
    for one in proto.opset_import:
        domain = domain_of(one.domain)
        need(
            found.get(domain, one.version) == one.version,
            f"operator set '{domain or 'ai.onnx'}' is imported twice, as {found.get(domain)} and {one.version}",
            NetworkError,
        )
        found[domain] = int(one.version)
    return found


class Functions:
    """The functions of a model, and how often they may still be called."""

    def __init__(self, model: Any, user_types: frozenset[str]) -> None:
        self._known: dict[Key, Any] = {}
        self._users = user_types
        self.left = MOST_NODES
        self._calls = 0
        for one in model.functions:
            key = (domain_of(one.domain), one.name, getattr(one, "overload", ""))
            need(key not in self._known, f"function '{one.name}' is there twice", NetworkError)
            self._known[key] = one

    def count(self) -> None:
        """Count a node."""
        self.left -= 1
        need(self.left >= 0, f"it has more than {MOST_NODES} nodes, those of its functions counted", NetworkError)

    def flat(self, nodes: Any, scope: Scope) -> Iterator[tuple[Any, Scope]]:
        """The nodes with those of functions in place of their calls."""
        for node in nodes:
            self.count()
            function = self._called(node)
            if function is None:
                yield node, scope
                continue
            with at(f"function '{node.op_type}'"):
                need(
                    scope.depth < _DEEP,
                    f"functions call one another more than {_DEEP} deep; does it call itself?",
                    NetworkError,
                )
                yield from self.flat(function.node, self._inside(node, function, scope))

    def _called(self, node: Any) -> Any:
        if node.op_type in self._users or f"{domain_of(node.domain)}.{node.op_type}" in self._users:
            return None
        return self._known.get((domain_of(node.domain), node.op_type, getattr(node, "overload", "")))

    def _inside(self, node: Any, function: Any, scope: Scope) -> Scope:
        need(
            len(node.input) <= len(function.input) and len(node.output) <= len(function.output),
            f"takes {len(function.input)} inputs and gives {len(function.output)}, the call has {len(node.input)} "
            f"and {len(node.output)}",
            NetworkError,
        )
        self._calls += 1
        prefix = f"{scope.prefix}{node.name or f'{node.op_type}_{self._calls}'}/"
        names = dict.fromkeys(function.input, "")
        names.update({inner: scope.value(outer) for inner, outer in zip(function.input, node.input)})
        names.update({inner: scope.value(outer) for inner, outer in zip(function.output, node.output) if outer})
        given = {a.name: a for a in bound_attributes(node, scope)}
        values = {**{a.name: a for a in function.attribute_proto}, **given}
        return Scope({**scope.opsets, **opsets(function)}, prefix, names, values, scope.depth + 1)


def bound_attributes(node: Any, scope: Scope) -> Iterator[Any]:
    """A node's attributes, those that name an attribute of the function replaced by its value or left out."""
    for one in node.attribute:
        if not one.ref_attr_name:
            yield one
            continue
        need(
            scope.attributes is not None,
            f"attribute '{one.name}' refers to '{one.ref_attr_name}', but this is no function",
            NetworkError,
        )
        found = (scope.attributes or {}).get(one.ref_attr_name)
        if found is not None:
            renamed = onnx.AttributeProto()
            renamed.CopyFrom(found)
            renamed.name = one.name
            yield renamed
