"""The functions that a model defines. They are inlined: a function's nodes replace each call of it.

Source: onnx.proto, FunctionProto; onnx/docs/IR.md, "Model Local Functions".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from anylayer.errors import NetworkError, at, need, plural
from anylayer.libraries.onnx import onnx
from anylayer.readers._limits import MAX_GRAPH_NESTING, MAX_NODES

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
