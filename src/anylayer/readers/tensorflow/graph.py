"""The operations of a graph as the file has them, with attributes as Python values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

from anylayer.errors import AnyLayerError, FileError, need
from anylayer.network import Array, as_written
from anylayer.readers._limits import MAX_LIST_BYTES, MAX_NODES
from anylayer.readers._names import layer_place
from anylayer.readers.tensorflow.messages import Record, map_entries, numbers
from anylayer.readers.tensorflow.tensors import dtype_name, shape_of, tensor_values


@dataclass(frozen=True, slots=True)
class StoredTensor:
    """A tensor in the file. Its values are read when they are needed."""

    record: Record

    def array(self) -> Array:
        """Return the values; see `tensor_values`."""
        return tensor_values(self.record)

    @property
    def dtype(self) -> str:
        return dtype_name(self.record.last("dtype", 0))


@dataclass(frozen=True, slots=True)
class FunctionRef:
    """A function that an attribute names, with the attributes of the call."""

    name: str
    attrs: Mapping[str, AttrValue]


@dataclass(frozen=True, slots=True)
class AttrPlaceholder:
    """The value of an attribute that the caller of a function sets. `name` is the caller's attribute."""

    name: str


@dataclass(frozen=True, slots=True)
class Inside:
    """The operations inside a loop or a branch.

    inputs: the operations that stand for its arguments. outputs: the values that it returns.
    """

    nodes: Mapping[str, GraphNode]
    inputs: Sequence[str]
    outputs: Sequence[str]


AttrValue = Union[str, int, float, "list[Any]", StoredTensor, FunctionRef, AttrPlaceholder, Inside, None]
"""The value of an attribute. A shape is a list of sizes (see `shape_of`), and a dtype is its name."""


@dataclass(slots=True)
class GraphNode:
    """An operation. Its inputs are names of tensors ("name", "name:1"), or of operations to wait for ("^name")."""

    name: str
    op: str
    inputs: list[str]
    attrs: dict[str, AttrValue]
    line: int = 0

    def place(self, file: str) -> str:
        """Return the place for an error message: "graph.pb: layer 'conv1' (Conv2D)"."""
        return layer_place(self.name, self.op, file, self.line)


def nodes_of(records: list[Record], file: str) -> list[GraphNode]:
    """Return the operations of a graph or of a function's body."""
    need(
        len(records) <= MAX_NODES, f"the graph has {len(records)} operations; the limit is {MAX_NODES}", FileError
    )
    return [_node(record, file) for record in records]


def _node(record: Record, file: str) -> GraphNode:
    node = GraphNode(record.last("name", ""), record.last("op", ""), list(record.all("input")), {}, record.line)
    name = ""
    try:
        need(node.op, "the operation has no type", FileError)
        for name, value in map_entries(record.all("attr")):
            node.attrs[name] = attribute_value(value)
    except AnyLayerError as error:
        error.places[:0] = [node.place(file), *([f"attribute '{name}'"] if name else [])]
        raise
    return node


def attribute_value(record: Record) -> AttrValue:
    """Return the value of an AttrValue message, or None if it is empty."""
    for name, read in _SINGLE.items():
        if name in record:
            return read(record.fields[name][-1])
    return None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _function(record: Record) -> FunctionRef:
    attrs = {name: attribute_value(value) for name, value in map_entries(record.all("attr"))}
    return FunctionRef(record.last("name", ""), attrs)


def _list(record: Record) -> list[Any]:
    for name, read in _LISTS.items():
        if name in record:
            count = sum(map(len, record.all(name))) if name in "ifb" or name == "type" else len(record.all(name))
            need(count <= MAX_LIST_BYTES, f"the list has {count} bytes; the limit is {MAX_LIST_BYTES}", FileError)
            return read(record)
    return []


def _numbers(name: str, kind: Callable[[Any], Any]) -> Callable[[Record], list[Any]]:
    return lambda record: [kind(v) for v in numbers(record, name).tolist()]


def _each(name: str, read: Callable[[Any], Any]) -> Callable[[Record], list[Any]]:
    return lambda record: [read(v) for v in record.all(name)]


_SINGLE: dict[str, Callable[[Any], AttrValue]] = {
    "s": _text,
    "i": int,
    "f": float,
    "b": bool,
    "type": dtype_name,
    "shape": shape_of,
    "tensor": StoredTensor,
    "func": _function,
    "list": _list,
    "placeholder": AttrPlaceholder,
}
_LISTS: dict[str, Callable[[Record], list[Any]]] = {
    "s": _each("s", _text),
    "i": _numbers("i", int),
    "f": _numbers("f", as_written),
    "b": _numbers("b", bool),
    "type": _numbers("type", dtype_name),
    "shape": _each("shape", shape_of),
    "tensor": _each("tensor", StoredTensor),
    "func": _each("func", _function),
}
