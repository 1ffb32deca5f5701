"""The .params file: a list of arrays, and a list of their names.

Source: src/ndarray/ndarray.cc of MXNet, NDArray::Load and NDArray::LegacyLoad.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from anylayer.errors import FileError, at, need
from anylayer.network import MAX_RANK, MAX_VALUES, Array, reshaped
from anylayer.protobuf.binary import MappedFile
from anylayer.readers._limits import MAX_NODES

DTYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64", "bool")
"""The dtypes by their number in files."""
_MAGIC = 0x112
_V1, _V2, _V3 = 0xF993FAC8, 0xF993FAC9, 0xF993FACA
_STORAGE = {0: "default", 1: "row_sparse", 2: "csr"}
_MAX_ARRAYS = 16 * MAX_NODES


@dataclass(slots=True)
class _Cursor:
    """A position in a file, from which values are read in sequence."""

    file: MappedFile
    position: int = 0

    def take(self, size: int) -> int:
        """Return the position of the next `size` bytes, and go on after them."""
        left = self.file.size - self.position
        need(0 <= size <= left, f"the file is cut off: {left} of {size} bytes at byte {self.position}", FileError)
        self.position += size
        return self.position - size

    def numbers(self, code: str) -> tuple[int, ...]:
        """Return integers, in a code of `struct`."""
        return struct.unpack_from(f"<{code}", self.file.data, self.take(struct.calcsize(f"<{code}")))

    def number(self, code: str) -> int:
        return self.numbers(code)[0]


def read_arrays(path: Path) -> dict[str, Array]:
    """Return the arrays of a file by name, without the prefixes `arg:` and `aux:`. Raise FileError.

    The arrays are views of the memory map, where they are aligned.
    """
    cursor = _Cursor(MappedFile(path))
    magic, _, count = cursor.numbers("QQQ")
    need(magic == _MAGIC, "this is not a list of arrays", FileError)
    need(count <= _MAX_ARRAYS, f"it claims {count} arrays; the limit is {_MAX_ARRAYS}", FileError)
    arrays = []
    for i in range(count):
        with at(f"array {i}"):
            arrays.append(_array(cursor))
    names = cursor.number("Q")
    need(names == count, f"it has {count} arrays, but {names} names", FileError)
    named: dict[str, Array] = {}
    for array in arrays:
        size = cursor.number("Q")
        start = cursor.take(size)
        name = bytes(cursor.file.data[start : start + size]).decode("utf-8", "backslashreplace")
        name = name.removeprefix("arg:").removeprefix("aux:")
        need(name not in named, f"it has two arrays '{name}'", FileError)
        named[name] = array
    rest = cursor.file.size - cursor.position
    need(rest == 0, f"it has {rest} bytes after the names", FileError)
    return named


def _array(cursor: _Cursor) -> Array:
    """Return one array, in the form of version 3 (since 1.6, with scalars), 2 (since 1.0), 1 or 0."""
    version = cursor.number("I")
    if version in (_V2, _V3):
        storage = cursor.number("i")
        rule = f"its storage is {_STORAGE.get(storage, storage)}; only dense arrays (default) are supported"
        need(storage == 0, rule, FileError)
    rank = cursor.number("i") if version in (_V1, _V2, _V3) else version
    need(rank > 0 or (rank == 0 and version == _V3), "it has no shape, and so no values", FileError)
    need(rank <= MAX_RANK, f"it has {rank} axes; the limit is {MAX_RANK}", FileError)
    shape = cursor.numbers(f"{rank}{'I' if rank == version else 'q'}")
    cursor.numbers("ii")  # the device
    number = cursor.number("i")
    need(0 <= number < len(DTYPES), f"its dtype has number {number}; known are 0 to {len(DTYPES) - 1}", FileError)
    dtype, size = np.dtype(DTYPES[number]), math.prod(shape)
    need(min(shape, default=0) >= 0 and size <= MAX_VALUES, f"its shape {shape} is not supported", FileError)
    start = cursor.take(size * dtype.itemsize)
    values = np.frombuffer(cursor.file.data, np.uint8 if dtype.kind == "b" else dtype, size, start)
    if dtype.kind == "b":
        need(bool((values <= 1).all()), "its values are neither true nor false", FileError)
        values = values.view(bool)
    return reshaped(np.require(values, requirements="A"), shape)
