"""A graph's operations as the file has them: GraphNodes, with their attributes as plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from anylayer.errors import AnyLayerError, FileError, need
from anylayer.network import Array, as_written
from anylayer.readers.tensorflow.messages import Record, numbers, pairs
from anylayer.readers.tensorflow.tensors import dtype_name, shape_of, tensor

MOST_NODES = 50_000
"""Operations of one graph, its functions put in."""
_MOST_ENTRIES = 1 << 16


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in the file, read when it is asked for."""

    record: Record

    def array(self) -> Array:
        """Its values: see tensors.tensor."""
        return tensor(self.record)

    @property
    def dtype(self) -> str:
        return dtype_name(self.record.last("dtype", 0))


@dataclass(frozen=True, slots=True)
class Function:
    """A function named by an attribute, with the attributes it is called with."""

    name: str
    attrs: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Placeholder:
    """An attribute whose value the caller of a function gives."""

    name: str


@dataclass(slots=True)
class GraphNode:
    """An operation: `inputs` name a node, a node's further output ("name:1"), or a node to wait for ("^name")."""

    name: str
    op: str
    inputs: list[str]
    attrs: dict[str, Any]
    line: int = 0
    outer: str = field(default="")

    def place(self, file: str) -> str:
        """How it is named in errors."""
        where = f"{file}:{self.line}" if self.line else file
        return f"{where}: layer '{self.name}' ({self.op})"


def nodes_of(records: list[Record], file: str) -> list[GraphNode]:
    """The operations of a graph or a function body."""
    need(len(records) <= MOST_NODES, f"{len(records)} operations, {MOST_NODES} are the most", FileError)
    return [_node(record, file) for record in records]


def _node(record: Record, file: str) -> GraphNode:
    node = GraphNode(record.last("name", ""), record.last("op", ""), list(record.all("input")), {}, record.line)
    name = ""
    try:
        need(node.op, "an operation without a type", FileError)
        for name, value in pairs(record.all("attr")):
            node.attrs[name] = attribute(value)
    except AnyLayerError as error:
        error.places[:0] = [node.place(file), *([f"attribute '{name}'"] if name else [])]
        raise
    return node


def attribute(record: Record) -> Any:
    """An AttrValue: str, int, float, bool, a dtype's name, a shape's list, a Tensor, a Function, or a list."""
    for name, read in _READ.items():
        if name in record:
            return read(record.fields[name][-1])
    return None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _function(record: Record) -> Function:
    return Function(record.last("name", ""), {name: attribute(v) for name, v in pairs(record.all("attr"))})


def _list(record: Record) -> list[Any]:
    for name, read in _LISTS.items():
        if name in record:
            count = sum(map(len, record.all(name))) if name in "ifb" or name == "type" else len(record.all(name))
            need(count <= _MOST_ENTRIES * 10, f"a list of {count} bytes of values", FileError)
            return read(record)
    return []


def _numbers(name: str, kind: Callable[[Any], Any]) -> Callable[[Record], list[Any]]:
    return lambda record: [kind(v) for v in numbers(record, name).tolist()]


def _each(name: str, read: Callable[[Any], Any]) -> Callable[[Record], list[Any]]:
    return lambda record: [read(v) for v in record.all(name)]


_READ: dict[str, Callable[[Any], Any]] = {
    "s": _text,
    "i": int,
    "f": float,
    "b": bool,
    "type": dtype_name,
    "shape": shape_of,
    "tensor": Tensor,
    "func": _function,
    "list": _list,
    "placeholder": Placeholder,
}
_LISTS: dict[str, Callable[[Record], list[Any]]] = {
    "s": _each("s", _text),
    "i": _numbers("i", int),
    "f": _numbers("f", as_written),
    "b": _numbers("b", bool),
    "type": _numbers("type", dtype_name),
    "shape": _each("shape", shape_of),
    "tensor": _each("tensor", Tensor),
    "func": _each("func", _function),
}
