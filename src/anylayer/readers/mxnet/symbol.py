"""The symbol: nodes in computing order, each with attributes and inputs, as versions 0.8 to 1.9 write them.

Source: src/nnvm/legacy_json_util.cc of MXNet; src/pass/saveload_json.cc of NNVM.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from anylayer.errors import FileError, InputError, at, nearest, need
from anylayer.readers._limits import MAX_GRAPH_NESTING, MAX_NODES
from anylayer.readers._values import AttributeValue, parse_value

VARIABLE = "null"
"""The type of the nodes of inputs and weights."""
_OLDEST = 800
"""The version of files that do not state theirs, in the form of MXNet: 10901 is 1.9.1."""
_CUSTOM = "Custom"
"""The type of the operators that users write in Python. Here, `op_type`, their own name, follows it."""
_HIDDEN = re.compile(r"__\w+__|(\w+_)?(ctx_group|lr_mult|wd_mult|force_mirroring|mirror_stage)")
"""Attributes that no operator reads: of users, of devices and of training."""
_OUTPUT = re.compile(r"(.+)_output(\d*)")
_MAX_DIGITS = 5  # of the number of an output
_LONG = re.compile(r"(?<=\d)L$")
_INNER = re.compile(r"\([^()\[\]]*\)|\[[^()\[\]]*\]")
_NESTED = re.compile(rf"[(\[]\s*(?:{_INNER.pattern})(?:\s*,\s*(?:{_INNER.pattern}))*\s*,?\s*[)\]]")

Entry = tuple[int, int]
"""An output of a node: the number of the node, and of the output."""
Value = AttributeValue | list[object] | None


@dataclass(frozen=True, slots=True)
class SymbolNode:
    """A node of the symbol. `hidden` are the attributes that no operator reads."""

    name: str
    type: str
    attributes: dict[str, str]
    hidden: dict[str, str]
    inputs: list[Entry]
    subgraphs: list[Symbol]


@dataclass(frozen=True, slots=True)
class Symbol:
    """The nodes of a file, its outputs, and MXNet's version."""

    nodes: list[SymbolNode]
    heads: list[Entry]
    version: int


def parse_symbol(stored: Mapping[str, object], version: int = _OLDEST, depth: int = 0) -> Symbol:
    """Return the symbol of a JSON object. Raise FileError for one that is damaged.

    version: MXNet's, where the object does not state it. depth: how many operators are around it.
    """
    need(depth <= MAX_GRAPH_NESTING, f"its subgraphs are nested deeper than {MAX_GRAPH_NESTING}", FileError)
    version = _version(stored, version)
    nodes: list[SymbolNode] = []
    items = _items(stored, "nodes")
    need(len(items) <= MAX_NODES, f"it has {len(items)} nodes; the limit is {MAX_NODES}", FileError)
    for i, item in enumerate(items):
        if not isinstance(item, dict):
            raise FileError(f"node {i} must be an object, got a {type(item).__name__}")
        nodes.append(_node(item, i, version, depth))
    return Symbol(nodes, [_entry(head, len(nodes), "heads") for head in _items(stored, "heads")], version)


def _version(stored: Mapping[str, object], version: int) -> int:
    stated = stored.get("attrs")
    if isinstance(stated, dict) and "mxnet_version" in stated:
        pair = stated["mxnet_version"]
        if not isinstance(pair, list) or len(pair) != 2 or type(pair[1]) is not int:
            raise FileError(f"mxnet_version must be ['int', number], got {str(pair)[:40]}")
        version = pair[1]
    return version


def with_outputs(symbol: Symbol, names: Sequence[str]) -> Symbol:
    """Return the symbol with other outputs: nodes, or "<node>_output" or "<node>_output<number>" as in MXNet."""
    numbers = {node.name: i for i, node in enumerate(symbol.nodes) if node.type != VARIABLE}
    heads: list[Entry] = []
    for name in names:
        parts = _OUTPUT.fullmatch(name)
        node, output = (name, "") if name in numbers or parts is None else parts.groups()
        exists = node in numbers and len(output) < _MAX_DIGITS
        need(exists, f"outputs: there is no operator for '{name}'{nearest(node, numbers)}", InputError)
        heads.append((numbers[node], int(output or 0)))
    need(heads, "outputs: give at least one name", InputError)
    return replace(symbol, heads=heads)


def _items(stored: Mapping[str, object], name: str) -> list[object]:
    items = stored.get(name)
    if not isinstance(items, list):
        raise FileError(f"'{name}' must be a list, got {type(items).__name__}")
    return items


def _node(item: Mapping[str, object], number: int, version: int, depth: int) -> SymbolNode:
    name, kind = item.get("name"), item.get("op")
    if not isinstance(name, str) or not isinstance(kind, str) or not kind:
        raise FileError(f"node {number} needs a name and an op, both texts")
    texts: dict[str, str] = {}
    # before 0.9 `param` has the operator's attributes and `attr` those of users; later, one has both
    keys = ("param",) if item.get("param") else ("attr", "attrs")
    for key in keys:
        texts.update(_texts(item.get(key, {}), f"{key} of node '{name}'"))
    if kind == _CUSTOM and texts.get("op_type"):
        kind = f"{_CUSTOM}:{texts.pop('op_type')}"
    visible = {key: text for key, text in texts.items() if not _HIDDEN.fullmatch(key)}
    hidden = _texts(item.get("attr", {}), f"attr of node '{name}'") | texts
    inputs = [_entry(entry, number, f"inputs of node '{name}'") for entry in _items(item, "inputs")]
    subgraphs = []
    for graph in _items(item, "subgraphs") if "subgraphs" in item else ():
        if not isinstance(graph, dict):
            raise FileError(f"a subgraph of node '{name}' must be an object, got a {type(graph).__name__}")
        with at(f"a subgraph of node '{name}'"):
            subgraphs.append(parse_symbol(graph, version, depth + 1))
    return SymbolNode(name, kind, visible, hidden, inputs, subgraphs)


def _texts(values: object, what: str) -> dict[str, str]:
    if not isinstance(values, dict) or not all(isinstance(value, str) for value in values.values()):
        raise FileError(f"{what} must be an object of texts")
    return dict(values)


def _entry(value: object, count: int, what: str) -> Entry:
    """Return an output of one of the first `count` nodes: [node, output], and since 0.9 a version, 0."""
    if not isinstance(value, list) or len(value) not in (2, 3) or not all(type(v) is int for v in value):
        raise FileError(f"{what} must be lists [node, output, 0], got {str(value)[:40]}")
    node, output = value[:2]
    need(0 <= node < count, f"{what} name node {node}, which is not among the {count} nodes before", FileError)
    need(0 <= output < MAX_NODES, f"{what} name output {output}", FileError)
    return node, output


def parse_attribute(text: str) -> Value:
    """Return the value of an attribute: as parse_value does, also of a tuple, in which entries may be None.

    >>> [parse_attribute(text) for text in ("(3, 3)", "[2L,]", "(None, 1)", "((0, 0), (1, 2))", "None", "relu")]
    [[3, 3], [2], [None, 1], [[0, 0], [1, 2]], None, 'relu']
    """
    bare = text.strip()
    if bare == "None":
        return None
    if len(bare) < 2 or bare[0] + bare[-1] not in ("()", "[]"):
        return parse_value(bare)
    if _NESTED.fullmatch(bare):
        lists: list[object] = [parse_attribute(part) for part in _INNER.findall(bare[1:-1])]
        return lists
    parts = [_LONG.sub("", part.strip()) for part in bare[1:-1].split(",")]
    if parts[-1] == "":
        parts.pop()
    values: list[object] = [None if part == "None" else parse_value(part) for part in parts]
    return text if any(isinstance(value, (str, list)) for value in values) else values
