"""A model's file without its large arrays: those stay in the mapped file, and are views of it when asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anylayer.errors import FileError, at, need
from anylayer.libraries.onnx import DecodeError, TensorProto, onnx
from anylayer.readers._protobuf import BYTES, Buffer

_GRAPH = 7
_INITIALIZER = 5
_RAW = 9
_LARGE = 4096
_MOST_REST = 1 << 30
"""Bytes of a model that are not large arrays; protobuf takes no more than 2 GiB."""


@dataclass(slots=True)
class Stored:
    """An initializer: its message, and where its bytes lie in the file where they have been left there."""

    proto: Any
    raw: tuple[int, int] | None = None


@dataclass(slots=True)
class Model:
    """A model whose graph has no initializers: those are `stored`."""

    path: Path
    buffer: Buffer
    proto: Any
    stored: list[Stored]


def load(path: Path) -> Model:
    """Map a file and parse what is not large arrays. Raises FileError where it is no ONNX model."""
    buffer = Buffer(path)
    try:
        rest, graph = _Pieces(buffer), _Pieces(buffer)
        stored: list[Stored] = []
        for number, kind, start, stop, begin in _fields(buffer, 0, buffer.size):
            if (number, kind) != (_GRAPH, BYTES):
                rest.take(begin, stop)
                continue
            for inner, wire, low, high, first in _fields(buffer, start, stop):
                if (inner, wire) == (_INITIALIZER, BYTES):
                    stored.append(_stored(buffer, low, high))
                else:
                    graph.take(first, high)
    except FileError as error:
        raise FileError(f"this is no ONNX model, or it is cut off: {error.message}", *error.places) from error
    model = _parsed(onnx.ModelProto, rest.bytes())
    need(graph.found or stored, "this is no ONNX model: it has no graph", FileError)
    model.graph.CopyFrom(_parsed(onnx.GraphProto, graph.bytes()))
    _need_names(_names(model))
    _need_names(name for s in stored for name in _of_tensor(s.proto))
    return Model(path, buffer, model, stored)


class _Pieces:
    """Runs of bytes of the file, put together."""

    def __init__(self, buffer: Buffer) -> None:
        self._data, self.found, self._size = buffer.data, False, 0
        self._runs: list[list[int]] = []

    def take(self, start: int, stop: int) -> None:
        self.found = True
        self._size += stop - start
        need(self._size <= _MOST_REST, f"more than {_MOST_REST} bytes of it are not weights", FileError)
        if self._runs and self._runs[-1][1] == start:
            self._runs[-1][1] = stop
        else:
            self._runs.append([start, stop])

    def bytes(self) -> bytes:
        return b"".join(self._data[a:b] for a, b in self._runs)


def _fields(buffer: Buffer, start: int, stop: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Number, wire type, start and stop of each field's value, and where the field itself begins."""
    begin = start
    for number, kind, low, high in buffer.fields(start, stop):
        yield number, kind, low, high, begin
        begin = high


def _stored(buffer: Buffer, start: int, stop: int) -> Stored:
    if stop - start < _LARGE:
        return Stored(_parsed(TensorProto, buffer.data[start:stop]))
    pieces = _Pieces(buffer)
    raw = None
    with at(f"the initializer at byte {start}"):
        for number, kind, low, high, begin in _fields(buffer, start, stop):
            if (number, kind) == (_RAW, BYTES):
                raw = (low, high)
            else:
                pieces.take(begin, high)
        return Stored(_parsed(TensorProto, pieces.bytes()), raw)


def _parsed(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise FileError("this is no ONNX model, or it is damaged: protobuf does not take it") from error


def _need_names(names: Iterable[Any]) -> None:
    """Refuse names that are not UTF-8, which protobuf gives as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise FileError(f"the name {name!r:.80} in it is not UTF-8")


def _names(model: Any) -> Iterator[Any]:
    """Every name in a model that is used."""
    for pair in model.metadata_props:
        yield from (pair.key, pair.value)
    yield from (opset.domain for opset in model.opset_import)
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output, *function.attribute)
        yield from (opset.domain for opset in function.opset_import)
        for one in function.attribute_proto:
            yield from _of_attribute(one)
        for node in function.node:
            yield from _of_node(node)


def _of_graph(graph: Any) -> Iterator[Any]:
    yield graph.name
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield info.name
        if info.type.WhichOneof("value") == "tensor_type":
            yield from (d.dim_param for d in info.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield from _of_tensor(tensor)
    for sparse in graph.sparse_initializer:
        yield from _of_tensor(sparse.values)
    for node in graph.node:
        yield from _of_node(node)


def _of_node(node: Any) -> Iterator[Any]:
    yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
    for one in node.attribute:
        yield from _of_attribute(one)


def _of_attribute(one: Any) -> Iterator[Any]:
    yield from (one.name, one.ref_attr_name)
    if one.HasField("t"):
        yield from _of_tensor(one.t)
    if one.HasField("g"):
        yield from _of_graph(one.g)
    for graph in one.graphs:
        yield from _of_graph(graph)


def _of_tensor(tensor: Any) -> Iterator[Any]:
    yield tensor.name
    for pair in tensor.external_data:
        yield from (pair.key, pair.value)
