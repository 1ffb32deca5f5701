"""TensorFlow's protobuf messages: Records, decoded from the binary or the text format by messages.proto."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from anylayer.errors import FileError
from anylayer.layer import Enum, Field
from anylayer.network import Array, DType, Flag, Word
from anylayer.protobuf.binary import MappedFile, need_wire_type, scalars, to_int64, varint_array
from anylayer.protobuf.proto_file import read_proto
from anylayer.protobuf.schema import MessageClass, Schema, numbered
from anylayer.protobuf.tree import Block, Entry, shortened_text
from anylayer.readers._limits import MAX_FIELD_PIECES, MAX_GRAPH_NESTING

T = TypeVar("T")
_PACKED: dict[str, DType] = {"float": np.dtype("<f4"), "double": np.dtype("<f8")}
"""Repeated numbers, which are read as arrays. Those of all other types are varints."""
_fields = cache(numbered)


@cache
def schema() -> Schema:
    """Return the declarations of TensorFlow's messages."""
    return read_proto(Path(__file__).with_name("messages.proto"))


@dataclass(slots=True)
class Record:
    """A message: for each field name the values of all its occurrences. `line` is 0 in a binary file."""

    message: MessageClass
    fields: dict[str, list[Any]] = field(default_factory=dict)
    line: int = 0

    def __contains__(self, name: str) -> bool:
        return name in self.fields

    def all(self, name: str) -> list[Any]:
        """Return every value of a field."""
        return self.fields.get(name, [])

    def last(self, name: str, default: T) -> T:
        """Return the value of a singular field.

        If it occurs several times, the last one is used, as in protobuf.
        """
        values = self.fields.get(name)
        return values[-1] if values else default

    def record(self, name: str) -> Record:
        """Return the message in a singular field, or an empty message if the field is absent."""
        kind: Any = self.message.fields[name].kind
        return self.last(name, Record(kind))


# --------------------------------------------------------------------- binary


def decode(buffer: MappedFile, message: str, start: int, stop: int) -> Record:
    """Return the message of the named type between two positions. Packed numbers are views of the mapped file.

    Unknown fields are skipped. Raise FileError for a damaged message.
    """
    return _decode(buffer, schema().messages[message], start, stop, 0)


def _decode(buffer: MappedFile, message: MessageClass, start: int, stop: int, depth: int) -> Record:
    if depth >= MAX_GRAPH_NESTING:
        raise FileError(f"messages are nested deeper than {MAX_GRAPH_NESTING}")
    fields = _fields(message)  # type: ignore[arg-type]  # a class is hashable
    record = Record(message)
    for number, wire, low, high in buffer.fields(start, stop):
        declared = fields.get(number)
        if declared is None:
            continue
        values = record.fields.setdefault(declared.name, [])
        values.append(_value(buffer, declared, wire, low, high, depth))
        if _is_array(declared) and len(values) > MAX_FIELD_PIECES:
            rule = (
                f"the values of field '{declared.name}' at byte {low} are in more than {MAX_FIELD_PIECES} pieces"
            )
            raise FileError(rule)
    return record


def _is_array(declared: Field) -> bool:
    """Return whether the values of a field are numbers in an array."""
    return declared.repeated and not isinstance(declared.kind, type) and declared.kind not in ("string", "bytes")


def _value(buffer: MappedFile, declared: Field, wire: int, low: int, high: int, depth: int) -> Any:
    is_array = _is_array(declared)
    need_wire_type(declared, wire, low, packed=is_array)
    if is_array:
        dtype = _PACKED.get(str(declared.kind), np.dtype(np.uint8))
        if (high - low) % dtype.itemsize:
            raise FileError(f"the bytes of '{declared.name}' at byte {low} are not a multiple of {dtype.itemsize}")
        return np.frombuffer(buffer.data, dtype, (high - low) // dtype.itemsize, low)
    if isinstance(declared.kind, type):
        return _decode(buffer, declared.kind, low, high, depth + 1)
    if declared.name == "tensor_content":
        return np.frombuffer(buffer.data, np.uint8, high - low, low)
    return (
        bytes(buffer.data[low:high]) if declared.kind == "bytes" else scalars(buffer, declared, wire, low, high)[0]
    )


# ----------------------------------------------------------------------- text


def from_text(block: Block, message: str) -> Record:
    """Return the message of the named type that a text file's block holds. Unknown fields are skipped."""
    return _from_text(block, schema().messages[message])


def _from_text(block: Block, message: MessageClass) -> Record:
    record = Record(message, line=block.line)
    for entry in block:
        declared = message.fields.get(entry.name)
        if declared is not None:
            record.fields.setdefault(entry.name, []).append(_text_value(block, entry, declared))
    return record


def _text_value(block: Block, entry: Entry, declared: Field) -> Any:
    kind, value = declared.kind, entry.value
    if isinstance(kind, type):
        return _from_text(block.as_block(entry), kind)
    if kind in ("string", "bytes"):
        text = block.string(entry).encode("utf-8", "surrogateescape")
        if kind == "string":
            return text.decode("utf-8", "backslashreplace")
        return np.frombuffer(text, np.uint8) if entry.name == "tensor_content" else text
    if isinstance(kind, Enum) and isinstance(value, Word):
        return np.array([value], object) if declared.repeated else str(value)
    if not isinstance(value, (int, float)):
        raise block.fail(f"'{entry.name}' must be a number, got {shortened_text(value)}", entry.line)
    if kind in _PACKED:
        with np.errstate(over="ignore"):
            return np.array([value], _PACKED[str(kind)]) if declared.repeated else float(value)
    is_bool = kind == "bool" and not declared.repeated
    if isinstance(value, float) or (is_bool and not isinstance(value, Flag) and value not in (0, 1)):
        raise block.fail(f"'{entry.name}' must be {'true or false' if is_bool else 'an integer'}", entry.line)
    return np.array([int(value)], object) if declared.repeated else bool(value) if is_bool else int(value)


def numbers(record: Record, name: str) -> Array:
    """Return all values of a packed field: int64 for varints, or object if a text file names enums."""
    parts = record.all(name)
    if record.message.fields[name].kind in _PACKED:
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else np.zeros(0, np.float32)
    if parts and parts[0].dtype == object:
        values = [v for part in parts for v in part]
        if any(isinstance(v, str) for v in values):
            return np.array(values, object)
        return np.array([to_int64(v & 0xFFFFFFFFFFFFFFFF) for v in values], np.int64)
    return varint_array(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def map_entries(records: list[Record]) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a map field. A missing value is an empty message or text."""
    for entry in records:
        kind = entry.message.fields["value"].kind
        default: Any = Record(kind) if isinstance(kind, type) else ""
        yield entry.last("key", ""), entry.last("value", default)
