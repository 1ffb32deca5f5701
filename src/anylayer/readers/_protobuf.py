"""Protobuf's binary format, read from a memory map (protobuf.dev/programming-guides/encoding).

Only the headers of fields are decoded. No memory is allocated for a size that a file only claims.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path

from anylayer.errors import FileError, need

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""


class MappedFile:
    """A memory-mapped file of `size` bytes. `file` is its path, for error messages.

    The map is private and writable, because OpenVINO shares weights only from writable memory. What is written to
    it never reaches the file. An empty file raises FileError.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        with path.open("rb") as handle:
            size = handle.seek(0, 2)
            need(size > 0, "the file is empty", FileError)
            self.data = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
        self.size = size

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """Return the unsigned varint at `position`, modulo 2**64, and the position after it.

        Raise FileError for a varint that reaches `end` or is longer than 10 bytes.
        """
        data = self.data
        value = shift = 0
        start = position
        while True:
            if position >= end:
                raise FileError(f"the number at byte {start} is cut off")
            byte = data[position]
            position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, position
            shift += 7
            if shift > 63:
                raise FileError(f"the number at byte {start} is longer than 10 bytes")

    def fields(self, position: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Yield each field of a message: its number, its wire type, and the start and end of its value.

        The value of a length-delimited field starts after its length. Raise FileError for a field that is damaged
        or reaches beyond `end`.
        """
        while position < end:
            start = position
            tag, position = self.varint(position, end)
            number, kind = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise FileError(f"field number {number} at byte {start} is outside protobuf's range")
            if kind == BYTES:
                length, position = self.varint(position, end)
                if length > end - position:
                    raise FileError(
                        f"field {number} at byte {start} claims {length} bytes, but {end - position} are left"
                    )
                stop = position + length
            elif kind == VARINT:
                stop = self.varint(position, end)[1]
            elif kind in (FIXED32, FIXED64):
                stop = position + (4 if kind == FIXED32 else 8)
                if stop > end:
                    raise FileError(f"field {number} at byte {start} is cut off")
            else:
                raise FileError(f"field {number} at byte {start} has wire type {kind}, which is not supported")
            yield number, kind, position, stop
            position = stop

    def text(self, start: int, stop: int) -> str:
        """Return the bytes between two positions as text. Bytes that are not UTF-8 become escapes ("\\xff")."""
        return bytes(self.data[start:stop]).decode("utf-8", "backslashreplace")


def to_int64(value: int) -> int:
    """Return the int64 that a varint encodes."""
    return value - (1 << 64) if value >= 1 << 63 else value
