"""Protobuf's binary format (protobuf.dev/programming-guides/encoding), in both directions.

A file is read from a memory map. Only the headers of fields are decoded until a value is needed, and no memory is
allocated for a size that a file only claims.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError, need
from anylayer.layer import Enum, Field, Message
from anylayer.layer.fields import NUMERIC, TRUE_WORDS, Kind
from anylayer.network import Array, Flag, Word, as_written

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
"""Wire types."""
_FORMATS = {"float": "<f", "double": "<d", "fixed32": "<I", "fixed64": "<Q", "sfixed32": "<i", "sfixed64": "<q"}
"""The types of a fixed size, as `struct` packs them."""
MAX_NESTING = 64
"""Levels of nested messages."""
MAX_PACKED_BYTES = 10 << 16
"""Bytes of the packed numbers of one field that become Python's numbers."""

Fields = Mapping[str, Field]


class Bytes:
    """Bytes in protobuf's binary format: those of a file, or its first ones."""

    def __init__(self, data: bytes | mmap.mmap) -> None:
        self.data = data

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


class MappedFile(Bytes):
    """A memory-mapped file of `size` bytes. `file` is its path, for error messages.

    The map is private and writable, because OpenVINO shares weights only from writable memory. What is written to
    it never reaches the file. An empty file raises FileError.
    """

    def __init__(self, path: Path) -> None:
        self.file = str(path)
        with path.open("rb") as handle:
            size = handle.seek(0, 2)
            need(size > 0, "the file is empty", FileError)
            super().__init__(mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_COPY))
        self.size = size


def varint(value: int) -> bytes:
    """Return an integer as a varint. A negative one has ten bytes."""
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def tag(number: int, wire_type: int) -> bytes:
    """Return the tag before a value: field number and wire type."""
    return varint(number << 3 | wire_type)


def to_int64(value: int) -> int:
    """Return the int64 that a varint encodes."""
    return value - (1 << 64) if value >= 1 << 63 else value


def wire_type(kind: Kind) -> int:
    """Return the wire type of a value of a field's type."""
    if isinstance(kind, Enum):
        return VARINT
    if isinstance(kind, type) or kind not in (*NUMERIC, "bool", "any"):
        return BYTES
    size = struct.calcsize(_FORMATS[kind]) if kind in _FORMATS else 0
    return {4: FIXED32, 8: FIXED64}.get(size, VARINT)


# ---- values from bytes


def need_wire_type(declared: Field, kind: int, position: int, remedy: str = "", *, packed: bool = True) -> None:
    """Raise FileError unless a field has the wire type of its declaration. With `packed`, numbers may be packed.

    `position` is the first byte of the value. `remedy` ends the message.
    """
    expected = wire_type(declared.kind)
    if kind != expected and not (packed and kind == BYTES):
        field = f"field {declared.number} ('{declared.name}') at byte {position}"
        raise FileError(f"{field} has wire type {kind}, expected {expected}{remedy}")


def scalars(buffer: Bytes, declared: Field, kind: int, low: int, high: int) -> list[Any]:
    """Return the value of a scalar field, or the values of a packed one, as a text file has them.

    `kind` is the wire type of the value between two positions. Raise FileError for a damaged value.
    """
    if wire_type(declared.kind) == BYTES:
        return [buffer.text(low, high)]
    if kind == BYTES and high - low > MAX_PACKED_BYTES:
        rule = f"'{declared.name}' has {high - low} bytes of packed numbers; the limit is {MAX_PACKED_BYTES}"
        raise FileError(rule)
    form = _FORMATS.get(str(declared.kind))
    if form is not None:
        size = struct.calcsize(form)
        if (high - low) % size:
            raise FileError(f"'{declared.name}': {high - low} bytes are not a multiple of {size}")
        values = [v for (v,) in struct.iter_unpack(form, buffer.data[low:high])]
        return [as_written(v) for v in values] if declared.kind == "float" else values
    convert = _from_varint(declared.kind)
    numbers = []
    while low < high:
        number, low = buffer.varint(low, high)
        numbers.append(convert(number))
    return numbers


def _from_varint(kind: Kind) -> Callable[[int], Any]:
    """Return the function that turns the varint of a field into its value."""
    if isinstance(kind, Enum):
        words = {number: Word(word) for word, number in reversed(kind.numbers.items())}
        return lambda n: words.get(_as_signed(n, 32), _as_signed(n, 32))
    if kind == "bool":
        return lambda n: Flag(n != 0)
    if kind in ("sint32", "sint64"):
        return lambda n: (n >> 1) ^ -(n & 1)
    if kind == "uint32":
        return lambda n: n & 0xFFFFFFFF
    if kind == "uint64":
        return lambda n: n
    return lambda n: _as_signed(n, 32 if kind == "int32" else 64)


def _as_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def varint_array(data: Array) -> Array:
    """Return packed varints as int64. Larger numbers wrap around, as in protobuf.

    `data` holds the bytes, as uint8. Raise FileError for a varint that is cut off or longer than 10 bytes.
    """
    ends = np.flatnonzero(data < 0x80)
    need(len(data) == 0 or (len(ends) > 0 and ends[-1] == len(data) - 1), "the last number is cut off", FileError)
    starts = np.concatenate([[0], ends[:-1] + 1]) if len(ends) else ends
    lengths = ends - starts + 1
    longest = int(lengths.max(initial=0))
    need(longest <= 10, "a number is longer than 10 bytes", FileError)
    total = np.zeros(len(ends), np.uint64)
    for k in range(longest):
        part = data[np.minimum(starts + k, ends)].astype(np.uint64) & np.uint64(0x7F)
        total |= np.where(k < lengths, part << np.uint64(7 * k), np.uint64(0))
    return total.view(np.int64)


# ---- bytes from values


def encode(values: Mapping[str, Any], fields: Fields) -> bytes:
    """Return a message's fields in binary form. Fields without a number are omitted."""
    out = bytearray()
    for name in in_order(values, fields):
        declared = fields.get(name)
        if declared is None or declared.number <= 0:
            continue
        entries = as_list(values[name])
        if declared.kind == "int64" and len(entries) > 1:
            packed = b"".join(varint(_integer(v, declared)) for v in entries)
            out += tag(declared.number, BYTES) + varint(len(packed)) + packed
            continue
        for value in entries:
            out += _encode_value(value, declared)
    return bytes(out)


def _encode_value(value: Any, declared: Field) -> bytes:
    """Return one value of a field in binary form, with its tag."""
    kind, number = declared.kind, declared.number
    if isinstance(value, Mapping):
        inner = encode(value, fields_of(declared))
        return tag(number, BYTES) + varint(len(inner)) + inner
    if isinstance(kind, Enum):
        value = kind.numbers[value] if isinstance(value, str) else _integer(value, declared)
        return tag(number, VARINT) + varint(value)
    if kind == "any":
        kind = "string" if isinstance(value, str) else "float" if isinstance(value, float) else "int64"
    if kind in ("string", "bytes"):
        text = str(value).encode()
        return tag(number, BYTES) + varint(len(text)) + text
    if kind == "bool":
        return tag(number, VARINT) + varint(int(value in TRUE_WORDS))
    if kind == "float":
        with np.errstate(over="ignore"):
            return tag(number, FIXED32) + bytes(np.float32(value).astype("<f4").tobytes())
    if kind in _FORMATS:
        value = value if kind == "double" else _integer(value, declared)
        return tag(number, wire_type(kind)) + struct.pack(_FORMATS[str(kind)], value)
    integer = _integer(value, declared)
    if kind in ("sint32", "sint64"):
        integer = 2 * integer if integer >= 0 else -2 * integer - 1
    return tag(number, VARINT) + varint(integer)


def _integer(value: Any, declared: Field) -> int:
    """Return a value of an integer field. Raise LayerError, which names the field, for another number."""
    is_integer = isinstance(value, (int, np.integer, np.bool_))
    need(is_integer, f"parameter '{declared.name}' must be an integer, got {value}")
    return int(value)


def as_list(value: Any) -> Sequence[Any]:
    """Return the values of a field as a list, also the single value of a field that is not repeated."""
    return value if isinstance(value, (list, tuple)) else [value]


def in_order(values: Mapping[str, Any], fields: Fields) -> list[str]:
    """Return the names of a message's values in the order of their field numbers, undeclared ones last."""
    return sorted(values, key=lambda n: fields[n].number if n in fields else 1 << 30)


def fields_of(declared: Field | None) -> Fields:
    """Return the fields of a field's message type, or an empty mapping if its type is not a message."""
    kind = declared.kind if declared is not None else None
    return kind.fields if isinstance(kind, type) and issubclass(kind, Message) else {}
