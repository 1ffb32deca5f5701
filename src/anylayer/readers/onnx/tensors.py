"""The arrays of a model: in its parsed messages, in its mapped file, or in an external data file."""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.libraries.onnx import TensorProto, helper, numpy_helper, onnx
from anylayer.network import MAX_RANK, Array, Shape, reshaped
from anylayer.protobuf.binary import MappedFile
from anylayer.readers._folder import need_in_folder
from anylayer.readers._limits import MAX_SPARSE_VALUES
from anylayer.readers.onnx.file import Initializer, OnnxModel

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
    dtype: np.dtype[Any]
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


def tensor_dtype(number: int) -> np.dtype[Any]:
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
