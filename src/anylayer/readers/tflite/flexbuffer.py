"""FlexBuffers, in which custom operators store their options: a map of texts, numbers and lists.

Each position that the bytes state is checked before something is read there. Many entries may share one value; so
what is read in all is limited by the number of bytes.
Source: flatbuffers.dev/flexbuffers; flexbuffers.h of FlatBuffers.
"""

from __future__ import annotations

import struct

from anylayer.errors import FileError, need
from anylayer.network import as_written
from anylayer.readers._limits import MAX_GRAPH_NESTING

_INT, _UINT, _FLOAT, _KEY, _TEXT, _MAP, _VECTOR, _BLOB, _BOOL, _BOOLS = 1, 2, 3, 4, 5, 9, 10, 25, 26, 36
_CODES = {_INT: "bhiq", _UINT: "BHIQ", _FLOAT: "-efd", _BOOL: "BHIQ"}
"""The codes of numbers in `struct`, by the logarithm of their size."""


def options_of(data: bytes) -> dict[str, object]:
    """Return the map that a FlexBuffer holds, or an empty one for other bytes."""
    reader = _Values(data)
    try:
        log = reader.log(len(data) - 1)
        value = reader.value(len(data) - 2 - (1 << log), log, int(reader.number(len(data) - 2, _UINT, 0)), 0)
    except FileError:
        return {}
    return value if isinstance(value, dict) else {}


class _Values:
    """The bytes, and how many values and characters may still be read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.left = data, len(data)

    def need(self, condition: bool) -> None:
        need(condition, "the options are not a FlexBuffer", FileError)

    def number(self, at: int, kind: int, log: int) -> float:
        self.need(0 <= at <= len(self.data) - (1 << log) and (kind != _FLOAT or log > 0))
        number: float = struct.unpack_from(f"<{_CODES[kind][log]}", self.data, at)[0]
        return as_written(number) if kind == _FLOAT and log == 2 else number

    def log(self, at: int, log: int = 0) -> int:
        """Return the logarithm of a size of numbers, which is stored at a position."""
        width = int(self.number(at, _UINT, log))
        self.need(width in (1, 2, 4, 8))
        return width.bit_length() - 1

    def value(self, at: int, log: int, packed: int, depth: int) -> object:
        """Return the value at a position. log: of the size of the number there. packed: the value's type, and the
        logarithm of the size of the numbers that it refers to.
        """
        kind, inner = packed >> 2, packed & 3
        self.need(depth <= MAX_GRAPH_NESTING)
        if kind in (0, *_CODES):
            number = self.number(at, kind, log) if kind else None
            return bool(number) if kind == _BOOL else number
        start = at - int(self.number(at, _UINT, log))
        if kind == _KEY:
            return self.bytes(start, self.data.find(b"\0", max(start, 0))).decode("utf-8", "replace")
        if 6 <= kind <= 8:
            return self.number(start, kind - 5, inner)
        if 16 <= kind <= 24:
            return self.list(start, inner, (kind - 16) // 3 + 2, (kind - 16) % 3 + 1, depth)
        self.need(kind in (_TEXT, _BLOB, _BOOLS) or _MAP <= kind <= 14)
        count = int(self.number(start - (1 << inner), _UINT, inner))
        if kind in (_TEXT, _BLOB):
            stored = self.bytes(start, start + count)
            return stored if kind == _BLOB else stored.decode("utf-8", "replace")
        values = self.list(start, inner, count, kind - 10 if kind > _VECTOR else 0, depth)
        if kind != _MAP:
            return values
        keys = start - (3 << inner)
        keys -= int(self.number(keys, _UINT, inner))
        names = self.list(keys, self.log(start - (2 << inner), inner), count, _KEY, depth)
        return dict(zip(map(str, names), values))

    def bytes(self, start: int, stop: int) -> bytes:
        self.need(0 <= start <= stop <= len(self.data) and stop - start <= self.left)
        self.left -= stop - start
        return self.data[start:stop]

    def list(self, start: int, log: int, count: int, kind: int, depth: int) -> list[object]:
        """Return `count` values of one kind, or of the kinds that follow them where `kind` is 0."""
        kinds = start + (count << log)
        self.need(start >= 0 and count <= self.left and kinds + (0 if kind else count) <= len(self.data))
        self.left -= count
        return [
            self.value(start + (i << log), log, kind << 2 if kind else self.data[kinds + i], depth + 1)
            for i in range(count)
        ]
