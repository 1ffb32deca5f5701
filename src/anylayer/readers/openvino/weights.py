"""The .bin file of an IR: raw tensors, addressed by offset and size."""

from __future__ import annotations

import math
import mmap
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, need
from anylayer.network import Array, Shape

_HALVES = {"u4": (np.uint8, False), "i4": (np.int8, True)}
_DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "boolean": np.bool_, "bool": np.bool_,
    "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
}  # fmt: skip
_READ_AS = {"bf16": np.dtype(np.float32), "u4": np.dtype(np.uint8), "i4": np.dtype(np.int8)}
_LEGACY = {
    "FP32": "f32", "FP16": "f16", "FP64": "f64", "I8": "i8", "I16": "i16", "I32": "i32", "I64": "i64",
    "U8": "u8", "U16": "u16", "U32": "u32", "U64": "u64", "BOOL": "boolean", "Q78": "q78",
}  # fmt: skip


def element_type(name: str) -> str:
    """The name that IR v10 and later give an element type, of that or an older one's name (FP32 is f32)."""
    return _LEGACY.get(name.upper(), name)


def is_known(name: str) -> bool:
    """Return whether an element type has a dtype."""
    return element_type(name) in {**_DTYPES, **_READ_AS}


def dtype_of(name: str) -> np.dtype[Any]:
    """The dtype that values of an element type are read as: NumPy's own, or a wider one that holds them exactly.

    Raises FileError for a type without one.
    """
    known = element_type(name)
    need(
        known in _DTYPES or known in _READ_AS,
        f"values of type '{name}' are not supported; types: {', '.join([*_DTYPES, *_READ_AS])}",
        FileError,
    )
    kinds: dict[str, Any] = {**_READ_AS, **_DTYPES}
    found: np.dtype[Any] = np.dtype(kinds[known])
    return found


class Weights:
    """A mapped .bin file; None where there is none. Arrays are views of the map where they can be.

    The map is private and may be written: OpenVINO shares weights only from memory of that kind. What is written
    to it never reaches the file.
    """

    def __init__(self, path: Path | None, wanted: Path) -> None:
        self.file = str(path or wanted)
        self.there = path is not None
        self._data: Any = b""
        if path is not None and path.stat().st_size:
            with path.open("rb") as handle:
                self._data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)

    def array(self, offset: int, size: int, kind: str, shape: Shape | None = None) -> Array:
        """`size` bytes at `offset` as values of element type `kind`; flat where no shape is given.

        Raises FileError where the file does not hold them, or they are not as many as the shape has.
        """
        length = len(self._data)
        need(self.there, f"its weights are not beside it: there is no {self.file}", FileError)
        need(
            offset >= 0 and size >= 0 and offset + size <= length,
            f"{size} bytes at offset {offset} are named, {self.file} has {length} bytes",
            FileError,
        )
        known = element_type(kind)
        dtype = dtype_of(kind)
        bits = 4 if known in _HALVES else 16 if known == "bf16" else 8 * dtype.itemsize
        count = size * 8 // bits if shape is None else math.prod(shape)
        need(
            size == -(-count * bits // 8),
            f"{count} values of type {known} need {-(-count * bits // 8)} bytes, size says {size}",
            FileError,
        )
        values = self._values(offset, size, known, count)
        return values if shape is None else values.reshape(shape)

    def _values(self, offset: int, size: int, known: str, count: int) -> Array:
        if not count:
            return np.empty(0, dtype_of(known))
        if known in _HALVES:
            return _halves(np.frombuffer(self._data, np.uint8, size, offset), count, *_HALVES[known])
        if known == "bf16":
            wide = np.frombuffer(self._data, np.uint16, count, offset).astype(np.uint32) << np.uint32(16)
            return np.asarray(wide.view(np.float32))
        dtype = np.dtype(_DTYPES[known])
        if known in ("boolean", "bool"):
            return np.asarray(np.frombuffer(self._data, np.uint8, count, offset) != 0)
        if offset % dtype.itemsize:
            return np.frombuffer(self._data[offset : offset + size], dtype)
        return np.frombuffer(self._data, dtype, count, offset)


def _halves(pairs: Array, count: int, kind: Any, signed: bool) -> Array:
    """Numbers of four bits, two a byte, the lower half first."""
    both = np.stack([pairs & 15, pairs >> 4], axis=-1).reshape(-1)[:count].astype(np.int8)
    if signed:
        both = np.where(both > 7, both - 16, both)
    return np.asarray(both.astype(kind))
