"""Protobuf's binary form, read over a memory map (protobuf.dev/programming-guides/encoding).

Only the headers of messages are walked; nothing is allocated that the file merely claims.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anylayer.errors import FileError, need

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Buffer:
    """A mapped file. `file` names it in errors.

    The map is private and may be written: OpenVINO shares weights only from memory of that kind. What is written
    to it never reaches the file.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        with path.open("rb") as handle:
            size = handle.seek(0, 2)
            need(size > 0, "the file is empty", FileError)
            self.data: Any = mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY)
        self.size = size

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """An unsigned varint below 2**64 and the position after it."""
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
        """Each field's number, wire type, and where its value starts and ends. A varint's value is at start."""
        while position < end:
            start = position
            tag, position = self.varint(position, end)
            number, kind = tag >> 3, tag & 7
            if not 0 < number < 1 << 29:
                raise FileError(f"field number {number} at byte {start} is not one of protobuf's")
            if kind == BYTES:
                length, position = self.varint(position, end)
                if length > end - position:
                    raise FileError(
                        f"field {number} at byte {start} claims {length} bytes, {end - position} are left"
                    )
                stop = position + length
            elif kind == VARINT:
                stop = self.varint(position, end)[1]
            elif kind in (FIXED32, FIXED64):
                stop = position + (4 if kind == FIXED32 else 8)
                if stop > end:
                    raise FileError(f"field {number} at byte {start} is cut off")
            else:
                raise FileError(f"field {number} at byte {start} has wire type {kind}, which is not read")
            yield number, kind, position, stop
            position = stop

    def text(self, start: int, stop: int) -> str:
        """A string's characters; bytes that are not UTF-8 are shown escaped."""
        return bytes(self.data[start:stop]).decode("utf-8", "backslashreplace")


def signed(value: int) -> int:
    """A varint as the int64 it stands for."""
    return value - (1 << 64) if value >= 1 << 63 else value
