"""Arrays of a model: inside it, in its mapped file, or in a file beside it."""

from __future__ import annotations

import math
import sys
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.libraries.onnx import TensorProto, helper, numpy_helper
from anylayer.network import Array
from anylayer.readers._beside import need_within
from anylayer.readers._protobuf import Buffer
from anylayer.readers.onnx.file import Model, Stored

_MOST_DENSE = 1 << 28
"""Values of a sparse array that is written out."""
_AXES = 32
_PACKED = ("INT4", "UINT4", "FLOAT4E2M1", "INT2", "UINT2")
_FIELDS = {
    **dict.fromkeys(("FLOAT", "COMPLEX64"), "float_data"),
    **dict.fromkeys(("DOUBLE", "COMPLEX128"), "double_data"),
    "INT64": "int64_data",
    **dict.fromkeys(("UINT32", "UINT64"), "uint64_data"),
}


class Tensors:
    """Reads the arrays of one model; files beside it are mapped once."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._folder = model.path.parent
        self._beside: dict[Path, Buffer] = {}

    def array(self, proto: Any, raw: tuple[int, int] | None = None) -> Array:
        """The values; a view of a mapped file where its bytes are those of the array.

        Raises FileError where what is claimed is not there.
        """
        with at(f"array '{proto.name}'" if proto.name else "an array"):
            dtype, name = _dtype(proto)
            shape = _shape(proto)
            count = math.prod(shape)
            if proto.data_location == TensorProto.EXTERNAL:
                return self._external(proto, dtype, name, shape, count)
            if raw is not None:
                return _view(self._model.buffer.data, *raw, dtype, name, shape)
            return _inside(proto, dtype, name, shape, count)

    def stored(self, stored: Stored) -> Array:
        """An initializer's values."""
        return self.array(stored.proto, stored.raw)

    def sparse(self, proto: Any) -> Array:
        """A sparse array, written out (onnx.proto SparseTensorProto)."""
        with at(f"sparse array '{proto.values.name}'"):
            shape = tuple(int(d) for d in proto.dims)
            need(all(d >= 0 for d in shape) and len(shape) <= _AXES, f"its shape is {shape}", FileError)
            count = math.prod(shape)
            need(count <= _MOST_DENSE, f"{shape} is {count} values, {_MOST_DENSE} are the most", FileError)
            values, indices = self.array(proto.values).reshape(-1), self.array(proto.indices)
            dense = np.zeros(shape, values.dtype)
            flat = indices.reshape(-1)
            if indices.ndim == 2:
                need(indices.shape == (len(values), len(shape)), f"its indices are {indices.shape}", FileError)
                need(bool(((indices >= 0) & (indices < shape)).all()), f"an index is outside {shape}", FileError)
                flat = np.ravel_multi_index(tuple(indices.T), shape) if len(values) else flat[:0]
            need(
                len(flat) == len(values) and bool(((flat >= 0) & (flat < count)).all()),
                f"its {len(flat)} indices do not fit {len(values)} values of {shape}",
                FileError,
            )
            dense.reshape(-1)[flat] = values
            return dense

    def _external(self, proto: Any, dtype: Any, name: str, shape: tuple[int, ...], count: int) -> Array:
        told = {entry.key: entry.value for entry in proto.external_data}
        buffer = self._file(told.get("location", ""))
        start = _number(told, "offset", 0)
        size = _number(told, "length", _bytes(name, dtype, count))
        need(
            start + size <= buffer.size,
            f"'{told['location']}' has {buffer.size} bytes, {start + size} are needed",
            FileError,
        )
        return _view(buffer.data, start, start + size, dtype, name, shape)

    def _file(self, location: str) -> Buffer:
        """The mapped file of external data, which must lie in the model's folder or below."""
        need(location, "its external data names no file", FileError)
        windows = PureWindowsPath(location)
        outside = PurePosixPath(location).is_absolute() or windows.is_absolute() or windows.drive or windows.root
        need(
            not outside and ".." not in windows.parts and "\0" not in location,
            f"its external data '{location}' must be a path within the model's folder",
            FileError,
        )
        path = self._folder / location
        need(path.is_file(), f"its external data '{location}' is not beside the model", FileError)
        need_within(path, self._model.path, f"its external data '{location}'")
        if path not in self._beside:
            self._beside[path] = Buffer(path)
        return self._beside[path]


def _number(told: dict[str, str], key: str, default: int) -> int:
    text = told.get(key, str(default))
    need(
        text.isascii() and text.isdigit() and len(text) < 19,
        f"the {key} of its external data is '{text}'",
        FileError,
    )
    return int(text)


def tensor_dtype(number: int) -> Any:
    """The dtype of ONNX's number. Raises FileError where it is none of numbers."""
    known = TensorProto.DataType.values()
    need(number in known, f"has data type {number}, which the installed onnx package does not know", FileError)
    name = TensorProto.DataType.Name(number)
    need(
        name not in ("UNDEFINED", "STRING"), f"holds {name.lower()} values: arrays of numbers are read", FileError
    )
    return np.dtype(helper.tensor_dtype_to_np_dtype(number))


def _dtype(proto: Any) -> tuple[Any, str]:
    dtype = tensor_dtype(proto.data_type)
    return dtype, TensorProto.DataType.Name(proto.data_type)


def _shape(proto: Any) -> tuple[int, ...]:
    shape = tuple(int(d) for d in proto.dims)
    need(len(shape) <= _AXES, f"has {len(shape)} axes, {_AXES} are the most", FileError)
    need(all(d >= 0 for d in shape), f"has shape {shape}: a size is negative", FileError)
    return shape


def _bytes(name: str, dtype: Any, count: int) -> int:
    if name in _PACKED:
        bits = int(name.lstrip("UINFLOAT")[0])
        return -(-count * bits // 8)
    return int(count * dtype.itemsize)


def _need_all(name: str, shape: tuple[int, ...], wanted: int, got: int, what: str) -> None:
    need(wanted == got, f"{name.lower()}{list(shape)} is {wanted} {what}, {got} are there", FileError)


def _view(data: Any, start: int, stop: int, dtype: Any, name: str, shape: tuple[int, ...]) -> Array:
    """The bytes of a mapped file as an array."""
    count = math.prod(shape)
    _need_all(name, shape, _bytes(name, dtype, count), stop - start, "bytes")
    if name in _PACKED:
        return _unpacked(bytes(data[start:stop]), name, shape)
    if not count:
        return np.zeros(shape, dtype)
    array = np.frombuffer(data, _stored_as(dtype), count, start).reshape(shape)
    array.flags.writeable = False
    return array


def _stored_as(dtype: Any) -> Any:
    """The dtype of bytes in the file, little end first."""
    return dtype if sys.byteorder == "little" else dtype.newbyteorder("<")


def _unpacked(data: bytes, name: str, shape: tuple[int, ...]) -> Array:
    proto = TensorProto(data_type=TensorProto.DataType.Value(name), dims=shape, raw_data=data)
    return np.asarray(numpy_helper.to_array(proto))


def _inside(proto: Any, dtype: Any, name: str, shape: tuple[int, ...], count: int) -> Array:
    if proto.HasField("raw_data"):
        _need_all(name, shape, _bytes(name, dtype, count), len(proto.raw_data), "bytes")
    else:
        values = len(getattr(proto, _FIELDS.get(name, "int32_data")))
        each = 2 if name.startswith("COMPLEX") else 1
        if name in _PACKED:
            _need_all(name, shape, _bytes(name, dtype, count), values, "values")
        else:
            _need_all(name, shape, count * each, values, "values")
    try:
        return np.asarray(numpy_helper.to_array(proto))
    except (ValueError, TypeError, OverflowError) as error:
        raise FileError(f"its values cannot be read: {error}") from error
