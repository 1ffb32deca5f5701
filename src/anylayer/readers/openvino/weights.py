"""The .bin file of an IR: the bytes of its arrays, located by offset and size."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, need
from anylayer.network import Array, DType, Shape, reshaped
from anylayer.protobuf.binary import MappedFile
from anylayer.readers._arrays import bfloat16_to_float32, four_bit_integers

_DTYPES: dict[str, type[np.generic]] = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "boolean": np.bool_, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
_WIDENED: dict[str, type[np.generic]] = {"bf16": np.float32, "u4": np.uint8, "i4": np.int8}
"""Element types that NumPy lacks, and the dtypes that hold their values exactly."""
_FOUR_BITS = ("u4", "i4")
_LEGACY = {
    "FP32": "f32", "FP16": "f16", "FP64": "f64", "I8": "i8", "I16": "i16", "I32": "i32", "I64": "i64",
    "U8": "u8", "U16": "u16", "U32": "u32", "U64": "u64", "BOOL": "boolean", "Q78": "q78",
}  # fmt: skip


def element_type(name: str) -> str:
    """Return the current name of an element type. Older versions name it differently: FP32 is now f32."""
    return _LEGACY.get(name.upper(), name)


def has_dtype(name: str) -> bool:
    """Return whether values of an element type can be read."""
    return element_type(name) in {**_DTYPES, **_WIDENED}


def dtype_of(name: str) -> DType:
    """Return the dtype that values of an element type are read as.

    It is NumPy's dtype of that type, or a wider one that holds the values exactly. Raise FileError for an element
    type without one.
    """
    dtype = {**_WIDENED, **_DTYPES}.get(element_type(name))
    if dtype is None:
        supported = ", ".join([*_DTYPES, *_WIDENED])
        raise FileError(f"values of type '{name}' are not supported; supported types: {supported}")
    return np.dtype(dtype)


class BinFile:
    """The memory-mapped .bin file at `path`. If `exists` is false, there is no file, and reading raises FileError.

    Arrays are views of the map (see MappedFile) where their bytes can be used as they are.
    """

    def __init__(self, path: Path, *, exists: bool = True) -> None:
        self.file, self.exists = str(path), exists
        self._data = MappedFile(path).data if exists and path.stat().st_size else b""

    def array(self, offset: int, size: int, kind: str, shape: Shape | None = None) -> Array:
        """Return `size` bytes at `offset` as values of element type `kind`, flat if no shape is given.

        Raise FileError if the file does not hold these bytes, or if they are not as many as the shape needs.
        """
        length = len(self._data)
        need(self.exists, f"its weights file {self.file} is missing", FileError)
        need(
            offset >= 0 and size >= 0 and offset + size <= length,
            f"{size} bytes at offset {offset} are needed, but {self.file} has {length} bytes",
            FileError,
        )
        element = element_type(kind)
        dtype = dtype_of(kind)
        bits = 4 if element in _FOUR_BITS else 16 if element == "bf16" else 8 * dtype.itemsize
        count = size * 8 // bits if shape is None else math.prod(shape)
        need(
            size == -(-count * bits // 8) or (count == 0 and size == 1),  # OpenVINO writes a byte for no values
            f"{count} values of type {element} need {-(-count * bits // 8)} bytes, but 'size' is {size}",
            FileError,
        )
        values = self._values(offset, size, element, count)
        return values if shape is None else reshaped(values, shape)

    def _values(self, offset: int, size: int, element: str, count: int) -> Array:
        if not count:
            return np.empty(0, dtype_of(element))
        if element in _FOUR_BITS:
            pairs = np.frombuffer(self._data, np.uint8, size, offset)
            return four_bit_integers(pairs, count, signed=element == "i4")
        if element == "bf16":
            return bfloat16_to_float32(np.frombuffer(self._data, np.uint16, count, offset))
        dtype = np.dtype(_DTYPES[element])
        if element in ("boolean", "bool"):
            return np.asarray(np.frombuffer(self._data, np.uint8, count, offset) != 0)
        if offset % dtype.itemsize:
            return np.frombuffer(self._data[offset : offset + size], dtype)
        return np.frombuffer(self._data, dtype, count, offset)
