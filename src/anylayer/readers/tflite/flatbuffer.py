"""FlatBuffers, the container of TFLite files: tables whose fields are numbers, texts, vectors and other tables.

Each position that the file states is checked before something is read there. A file may let many fields share one
vector; so what is read in all is limited by the size of the file.
Source: flatbuffers.dev/internals.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import DTypeLike

from anylayer.errors import FileError, need
from anylayer.network import Array
from anylayer.readers.tflite.schema import TABLES

_READS_PER_BYTE = 4
"""Bytes of vectors and texts that are read for each byte of the file."""


@dataclass(slots=True)
class FlatBuffer:
    """The bytes of a file, and how many of them may still be read as elements of vectors."""

    data: bytes | mmap.mmap
    left: int = field(init=False)

    def __post_init__(self) -> None:
        self.left = _READS_PER_BYTE * len(self.data)

    def root(self, schema: str) -> FlatTable:
        """Return the first table."""
        return FlatTable(self, self.number(0, "I"), TABLES[schema])

    def number(self, position: int, code: str) -> int:
        """Return the integer at a position, in a code of `struct`."""
        size = struct.calcsize(f"<{code}")
        need(
            0 <= position <= len(self.data) - size,
            f"the file is damaged: it refers to byte {position}, but has {len(self.data)}",
            FileError,
        )
        return int(struct.unpack_from(f"<{code}", self.data, position)[0])

    def take(self, values: Array) -> Array:
        """Return an array that is going to be copied, and count its bytes."""
        self.left -= values.nbytes
        need(self.left >= 0, "the file is damaged: too many of its fields share a vector", FileError)
        return values

    def array(self, start: int, count: int, dtype: DTypeLike) -> Array:
        """Return `count` elements from a position on, as a view."""
        kind = np.dtype(dtype).newbyteorder("<")
        rest = len(self.data) - start
        rule = f"the file is damaged: {count} elements at byte {start} exceed its {len(self.data)} bytes"
        need(start >= 0 and 0 <= count * kind.itemsize <= rest, rule, FileError)
        return np.frombuffer(self.data, kind, count, start)


@dataclass(frozen=True, slots=True)
class FlatTable:
    """A table at a position of the file, whose fields have the numbers that `schema` states."""

    buffer: FlatBuffer
    position: int
    schema: Mapping[str, int]

    def _place(self, name: str) -> int:
        """Return the position of a field, or 0 where it is absent."""
        number = self.buffer.number
        offsets = self.position - number(self.position, "i")
        entry = 4 + 2 * self.schema[name]
        if entry + 2 > number(offsets, "H"):
            return 0
        offset = number(offsets + entry, "H")
        return self.position + offset if offset else 0

    def number(self, name: str, code: str, default: int = 0) -> int:
        """Return an integer."""
        place = self._place(name)
        return self.buffer.number(place, code) if place else default

    def _target(self, name: str) -> int:
        """Return the position that a field refers to, or 0 where it is absent."""
        place = self._place(name)
        return place + self.buffer.number(place, "I") if place else 0

    def view(self, name: str, dtype: DTypeLike = np.uint8) -> Array:
        """Return a vector of numbers as a view, without elements where it is absent."""
        start = self._target(name)
        return self.buffer.array(start + 4, self.buffer.number(start, "I"), dtype) if start else np.empty(0, dtype)

    def real(self, name: str) -> float:
        """Return a float32."""
        place = self._place(name)
        return float(self.buffer.array(place, 1, np.float32)[0]) if place else 0.0

    def numbers(self, name: str, dtype: DTypeLike) -> list[int]:
        """Return a short vector of numbers."""
        return self.buffer.take(self.view(name, dtype)).tolist()

    def text(self, name: str) -> str:
        """Return a text."""
        return bytes(self.numbers(name, np.uint8)).decode("utf-8", "replace")

    def table(self, name: str, schema: Mapping[str, int]) -> FlatTable | None:
        """Return the table that a field refers to."""
        start = self._target(name)
        return FlatTable(self.buffer, start, schema) if start else None

    def tables(self, name: str, schema: str, limit: int) -> list[FlatTable]:
        """Return a vector of at most `limit` tables."""
        start = self._target(name)
        offsets = self.numbers(name, np.uint32)
        rule = f"the file has {len(offsets)} {name.replace('_', ' ')}; the limit is {limit}"
        need(len(offsets) <= limit, rule, FileError)
        return [FlatTable(self.buffer, start + 4 + 4 * i + at, TABLES[schema]) for i, at in enumerate(offsets)]
