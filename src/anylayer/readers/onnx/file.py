"""A model's file: parsed without its large arrays, and the arrays.

An array is in the parsed messages, in the mapped file, of which it is a view, or in an external data file."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.libraries.onnx import DecodeError, TensorProto, helper, numpy_helper, onnx
from anylayer.network import MAX_RANK, Array, DType, Shape, reshaped
from anylayer.protobuf.binary import BYTES, MappedFile
from anylayer.readers._folder import need_in_folder
from anylayer.readers._limits import MAX_ONNX_BYTES, MAX_SPARSE_VALUES

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
    _need_utf8(_names(model))
    _need_utf8(name for i in initializers for name in _names(i.proto))
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


_UNUSED = frozenset(("doc_string", "producer_name", "producer_version", "training_info"))


def _names(message: Any) -> Iterator[str | bytes]:
    """Yield every text in a message that is used."""
    for field, value in message.ListFields():
        if field.name in _UNUSED:
            continue
        if field.message_type is not None:
            for inner in [value] if hasattr(value, "ListFields") else value:
                yield from _names(inner)
        elif field.type == field.TYPE_STRING:
            yield from [value] if isinstance(value, (str, bytes)) else value


_PACKED = ("INT4", "UINT4", "FLOAT4E2M1", "INT2", "UINT2")
"""Data types of which one byte holds several values."""
_VALUE_FIELDS = {
    **dict.fromkeys(("FLOAT", "COMPLEX64"), "float_data"),
    **dict.fromkeys(("DOUBLE", "COMPLEX128"), "double_data"),
    "INT64": "int64_data",
    **dict.fromkeys(("UINT32", "UINT64"), "uint64_data"),
}
"""The field of a TensorProto that holds values of a data type.

It is int32_data for the types that are not listed.
"""


@dataclass(frozen=True, slots=True)
class _ArrayType:
    """The type of an array: its shape, its dtype, and the name of its ONNX data type."""

    shape: Shape
    dtype: DType
    name: str

    @classmethod
    def of(cls, proto: TensorProto) -> _ArrayType:
        dtype = tensor_dtype(proto.data_type)
        shape = tuple(int(d) for d in proto.dims)
        need(len(shape) <= MAX_RANK, f"has {len(shape)} axes; the limit is {MAX_RANK}", FileError)
        need(all(d >= 0 for d in shape), f"has shape {shape}: a size is negative", FileError)
        return cls(shape, dtype, TensorProto.DataType.Name(proto.data_type))

    @property
    def count(self) -> int:
        """Return the number of values."""
        return math.prod(self.shape)

    @property
    def size(self) -> int:
        """Return the number of bytes in a file."""
        if self.name in _PACKED:
            bits = int(self.name.lstrip("UINFLOAT")[0])
            return -(-self.count * bits // 8)
        return self.count * self.dtype.itemsize

    def need(self, expected: int, stored: int, unit: str) -> None:
        """Raise FileError unless the file has as many bytes or values as needed."""
        rule = f"{self.name.lower()}{list(self.shape)} needs {expected} {unit}, but the file has {stored}"
        need(expected == stored, rule, FileError)


class Tensors:
    """The arrays of one model. Each external data file is mapped once."""

    def __init__(self, model: OnnxModel) -> None:
        self._model = model
        self._folder = model.path.parent
        self._external_files: dict[Path, MappedFile] = {}

    def array(self, proto: TensorProto, raw: tuple[int, int] | None = None) -> Array:
        """Return the values of an array. They are a view of a mapped file where possible.

        `raw` are the start and end of its bytes in the model's file, if `proto` does not contain them. Raise
        FileError if the values are missing or do not match the shape.
        """
        with at(f"array '{proto.name}'" if proto.name else "an array"):
            type_ = _ArrayType.of(proto)
            if proto.data_location == TensorProto.EXTERNAL:
                return self._external(proto, type_)
            if raw is not None:
                return _view(self._model.buffer, *raw, type_)
            return _contents(proto, type_)

    def initializer(self, initializer: Initializer) -> Array:
        """Return the values of an initializer."""
        return self.array(initializer.proto, initializer.raw)

    def sparse(self, proto: onnx.SparseTensorProto) -> Array:
        """Return a sparse array as a dense one (onnx.proto, SparseTensorProto)."""
        with at(f"sparse array '{proto.values.name}'"):
            shape = tuple(int(d) for d in proto.dims)
            rule = f"its shape {shape} has a negative size or more than {MAX_RANK} axes"
            need(all(d >= 0 for d in shape) and len(shape) <= MAX_RANK, rule, FileError)
            count = math.prod(shape)
            rule = f"shape {shape} has {count} values; the limit is {MAX_SPARSE_VALUES}"
            need(count <= MAX_SPARSE_VALUES, rule, FileError)
            values, indices = self.array(proto.values).reshape(-1), self.array(proto.indices)
            dense = reshaped(np.zeros(count, values.dtype), shape)
            flat = indices.reshape(-1)
            if indices.ndim == 2:
                expected = (len(values), len(shape))
                rule = f"its indices have shape {indices.shape}, expected {expected}"
                need(indices.shape == expected, rule, FileError)
                rule = f"an index is outside of shape {shape}"
                need(bool(((indices >= 0) & (indices < shape)).all()), rule, FileError)
                flat = np.ravel_multi_index(tuple(indices.T), shape) if len(values) else flat[:0]
            need(
                len(flat) == len(values) and bool(((flat >= 0) & (flat < count)).all()),
                f"its {len(flat)} indices do not match its {len(values)} values and shape {shape}",
                FileError,
            )
            dense.reshape(-1)[flat] = values
            return dense

    def _external(self, proto: TensorProto, type_: _ArrayType) -> Array:
        entries = {entry.key: entry.value for entry in proto.external_data}
        buffer = self._external_file(entries.get("location", ""))
        start = _number(entries, "offset", 0)
        size = _number(entries, "length", type_.size)
        need(
            start + size <= buffer.size,
            f"'{entries['location']}' has {buffer.size} bytes, but {start + size} are needed",
            FileError,
        )
        return _view(buffer, start, start + size, type_)

    def _external_file(self, location: str) -> MappedFile:
        """Return a mapped file of external data. Raise FileError unless it lies in the model's folder or below."""
        need(location, "its external data names no file", FileError)
        windows = PureWindowsPath(location)
        outside = PurePosixPath(location).is_absolute() or windows.is_absolute() or windows.drive or windows.root
        need(
            not outside and ".." not in windows.parts and "\0" not in location,
            f"its external data '{location}' must be a path within the model's folder",
            FileError,
        )
        path = self._folder / location
        need(path.is_file(), f"its external data '{location}' is not in the model's folder", FileError)
        need_in_folder(path, self._model.path, f"its external data '{location}'")
        if path not in self._external_files:
            self._external_files[path] = MappedFile(path)
        return self._external_files[path]


def _number(entries: dict[str, str], key: str, default: int) -> int:
    text = entries.get(key, str(default))
    need(
        text.isascii() and text.isdigit() and len(text) < 19,
        f"the {key} of its external data must be an integer, got '{text[:40]}'",
        FileError,
    )
    return int(text)


def tensor_dtype(number: int) -> DType:
    """Return the dtype of an ONNX data type, given by its number.

    Raise FileError if it is not a type of numbers.
    """
    numbers = TensorProto.DataType.values()
    need(number in numbers, f"has data type {number}, which the installed onnx package does not know", FileError)
    name = TensorProto.DataType.Name(number)
    rule = f"has {name.lower()} values, but only numbers are supported"
    need(name not in ("UNDEFINED", "STRING"), rule, FileError)
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


def _view(buffer: MappedFile, start: int, stop: int, type_: _ArrayType) -> Array:
    """Return the bytes between two positions of a mapped file as a read-only array, without a copy if possible."""
    type_.need(type_.size, stop - start, "bytes")
    if type_.name in _PACKED:
        return _unpack(buffer.data[start:stop], type_)
    if not type_.count:
        return reshaped(np.zeros(0, type_.dtype), type_.shape)
    dtype = type_.dtype if sys.byteorder == "little" else type_.dtype.newbyteorder("<")
    array = np.frombuffer(buffer.data, dtype, type_.count, start).reshape(type_.shape)
    array.flags.writeable = False
    return array


def _unpack(data: bytes, type_: _ArrayType) -> Array:
    number = TensorProto.DataType.Value(type_.name)
    return np.asarray(numpy_helper.to_array(TensorProto(data_type=number, dims=type_.shape, raw_data=data)))


def _contents(proto: TensorProto, type_: _ArrayType) -> Array:
    """Return the values that a TensorProto contains."""
    if proto.HasField("raw_data"):
        type_.need(type_.size, len(proto.raw_data), "bytes")
    else:
        stored = len(getattr(proto, _VALUE_FIELDS.get(type_.name, "int32_data")))
        per_value = 2 if type_.name.startswith("COMPLEX") else 1
        expected = type_.size if type_.name in _PACKED else type_.count * per_value
        type_.need(expected, stored, "values")
    try:
        return np.asarray(numpy_helper.to_array(proto))
    except (ValueError, TypeError, OverflowError) as error:
        raise FileError(f"its values cannot be read: {error}") from error
