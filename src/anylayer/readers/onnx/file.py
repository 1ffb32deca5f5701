"""A model's file, parsed without its large arrays.

They stay in the mapped file and are read later, as views of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from anylayer.errors import FileError, at, need
from anylayer.libraries.onnx import DecodeError, TensorProto, onnx
from anylayer.protobuf.binary import BYTES, MappedFile
from anylayer.readers._limits import MAX_ONNX_BYTES

_GRAPH, _INITIALIZER, _RAW_DATA = 7, 5, 9
"""Field numbers of ModelProto.graph, GraphProto.initializer and TensorProto.raw_data."""
_LARGE_BYTES = 4096
"""The size, in bytes, of the smallest initializer whose data stay in the file."""


@dataclass(slots=True)
class Initializer:
    """An initializer.

    `raw` are the start and end of its bytes in the file, if the message does not contain them.
    """

    proto: TensorProto
    raw: tuple[int, int] | None = None


@dataclass(slots=True)
class OnnxModel:
    """A model. Its initializers are not in `proto`."""

    path: Path
    buffer: MappedFile
    proto: onnx.ModelProto
    initializers: list[Initializer]


def load(path: Path) -> OnnxModel:
    """Map a file and parse it without its large arrays. Raise FileError if it is not an ONNX model."""
    buffer = MappedFile(path)
    try:
        rest, graph = _Runs(buffer), _Runs(buffer)
        initializers: list[Initializer] = []
        for number, kind, start, stop, begin in _fields(buffer, 0, buffer.size):
            if (number, kind) != (_GRAPH, BYTES):
                rest.add(begin, stop)
                continue
            for inner, wire, low, high, first in _fields(buffer, start, stop):
                if (inner, wire) == (_INITIALIZER, BYTES):
                    initializers.append(_initializer(buffer, low, high))
                else:
                    graph.add(first, high)
    except FileError as error:
        raise FileError(f"this is not an ONNX model, or it is cut off: {error.message}", *error.places) from error
    model = _parse(onnx.ModelProto, rest.bytes())
    need(graph.found or initializers, "this is not an ONNX model: it has no graph", FileError)
    model.graph.CopyFrom(_parse(onnx.GraphProto, graph.bytes()))
    _need_utf8(_model_names(model))
    _need_utf8(name for i in initializers for name in _tensor_names(i.proto))
    return OnnxModel(path, buffer, model, initializers)


class _Runs:
    """A collection of runs of bytes of the file. `found` is true once there is one, even an empty one."""

    def __init__(self, buffer: MappedFile) -> None:
        self._data, self.found, self._size = buffer.data, False, 0
        self._runs: list[list[int]] = []

    def add(self, start: int, stop: int) -> None:
        self.found = True
        self._size += stop - start
        rule = f"the model has more than {MAX_ONNX_BYTES} bytes besides its large weights, which is the limit"
        need(self._size <= MAX_ONNX_BYTES, rule, FileError)
        if self._runs and self._runs[-1][1] == start:
            self._runs[-1][1] = stop
        else:
            self._runs.append([start, stop])

    def bytes(self) -> bytes:
        return b"".join(self._data[a:b] for a, b in self._runs)


def _fields(buffer: MappedFile, start: int, stop: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield each field: its number, its wire type, the start and end of its value, and the start of the field."""
    begin = start
    for number, kind, low, high in buffer.fields(start, stop):
        yield number, kind, low, high, begin
        begin = high


def _initializer(buffer: MappedFile, start: int, stop: int) -> Initializer:
    """Return the initializer whose message is between two positions.

    Leave the bytes of a large one in the file.
    """
    if stop - start < _LARGE_BYTES:
        return Initializer(_parse(TensorProto, buffer.data[start:stop]))
    rest = _Runs(buffer)
    raw = None
    with at(f"the initializer at byte {start}"):
        for number, kind, low, high, begin in _fields(buffer, start, stop):
            if (number, kind) == (_RAW_DATA, BYTES):
                raw = (low, high)
            else:
                rest.add(begin, high)
        return Initializer(_parse(TensorProto, rest.bytes()), raw)


def _parse(message: Any, data: bytes) -> Any:
    """Return a message of a protobuf class, parsed from its bytes."""
    try:
        return message.FromString(data)
    except (DecodeError, RuntimeError, ValueError) as error:
        raise FileError("this is not an ONNX model, or it is damaged: protobuf cannot parse it") from error


def _need_utf8(names: Iterable[str | bytes]) -> None:
    """Raise FileError for a name that is not UTF-8. Protobuf returns such names as bytes."""
    for name in names:
        if not isinstance(name, str):
            raise FileError(f"the name {name!r:.80} in it is not UTF-8")


def _model_names(model: onnx.ModelProto) -> Iterator[str | bytes]:
    """Yield every name in a model that is used."""
    for pair in model.metadata_props:
        yield from (pair.key, pair.value)
    yield from (opset.domain for opset in model.opset_import)
    yield from _graph_names(model.graph)
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output, *function.attribute)
        yield from (opset.domain for opset in function.opset_import)
        for attribute in function.attribute_proto:
            yield from _attribute_names(attribute)
        for node in function.node:
            yield from _node_names(node)


def _graph_names(graph: onnx.GraphProto) -> Iterator[str | bytes]:
    yield graph.name
    for info in (*graph.input, *graph.output, *graph.value_info):
        yield info.name
        if info.type.WhichOneof("value") == "tensor_type":
            yield from (d.dim_param for d in info.type.tensor_type.shape.dim)
    for tensor in graph.initializer:
        yield from _tensor_names(tensor)
    for sparse in graph.sparse_initializer:
        yield from _tensor_names(sparse.values)
    for node in graph.node:
        yield from _node_names(node)


def _node_names(node: onnx.NodeProto) -> Iterator[str | bytes]:
    yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
    for attribute in node.attribute:
        yield from _attribute_names(attribute)


def _attribute_names(attribute: onnx.AttributeProto) -> Iterator[str | bytes]:
    yield from (attribute.name, attribute.ref_attr_name)
    if attribute.HasField("t"):
        yield from _tensor_names(attribute.t)
    if attribute.HasField("g"):
        yield from _graph_names(attribute.g)
    for graph in attribute.graphs:
        yield from _graph_names(graph)


def _tensor_names(tensor: TensorProto) -> Iterator[str | bytes]:
    yield tensor.name
    for pair in tensor.external_data:
        yield from (pair.key, pair.value)
