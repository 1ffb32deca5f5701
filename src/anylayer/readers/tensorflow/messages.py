"""TensorFlow's protobuf messages: Records, decoded from the binary or the text format.

Source of the field numbers: tensorflow/core/framework/{graph,node_def,attr_value,tensor,tensor_shape,function,
op_def}.proto, tensorflow/core/protobuf/{meta_graph,saved_model,saver,tensor_bundle}.proto. Fields that do not
affect a network are left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from anylayer.errors import FileError, need
from anylayer.network import Array, Flag, Word, as_written
from anylayer.readers._limits import MAX_FIELD_PIECES, MAX_GRAPH_NESTING
from anylayer.readers._protobuf import BYTES, FIXED32, FIXED64, VARINT, MappedFile, to_int64
from anylayer.readers._tree import Block, Entry, shortened_text

T = TypeVar("T")
_Fields = dict[int, tuple[str, str]]

MESSAGES: dict[str, _Fields] = {
    "GraphDef": {1: ("node", "NodeDef"), 2: ("library", "FunctionDefLibrary")},
    "NodeDef": {1: ("name", "string"), 2: ("op", "string"), 3: ("input", "string"), 5: ("attr", "AttrEntry")},
    "AttrEntry": {1: ("key", "string"), 2: ("value", "AttrValue")},
    "AttrValue": {
        1: ("list", "ListValue"),
        2: ("s", "bytes"),
        3: ("i", "int"),
        4: ("f", "float"),
        5: ("b", "bool"),
        6: ("type", "type"),
        7: ("shape", "TensorShapeProto"),
        8: ("tensor", "TensorProto"),
        9: ("placeholder", "string"),
        10: ("func", "NameAttrList"),
    },
    "ListValue": {
        2: ("s", "bytes"),
        3: ("i", "varints"),
        4: ("f", "floats"),
        5: ("b", "varints"),
        6: ("type", "varints"),
        7: ("shape", "TensorShapeProto"),
        8: ("tensor", "TensorProto"),
        9: ("func", "NameAttrList"),
    },
    "NameAttrList": {1: ("name", "string"), 2: ("attr", "AttrEntry")},
    "TensorShapeProto": {2: ("dim", "Dim"), 3: ("unknown_rank", "bool")},
    "Dim": {1: ("size", "int")},
    "TensorProto": {
        1: ("dtype", "type"),
        2: ("tensor_shape", "TensorShapeProto"),
        4: ("tensor_content", "content"),
        5: ("float_val", "floats"),
        6: ("double_val", "doubles"),
        7: ("int_val", "varints"),
        8: ("string_val", "bytes"),
        10: ("int64_val", "varints"),
        11: ("bool_val", "varints"),
        13: ("half_val", "varints"),
        16: ("uint32_val", "varints"),
        17: ("uint64_val", "varints"),
    },
    "FunctionDefLibrary": {1: ("function", "FunctionDef")},
    "FunctionDef": {
        1: ("signature", "OpDef"),
        3: ("node_def", "NodeDef"),
        4: ("ret", "TextEntry"),
    },
    "TextEntry": {1: ("key", "string"), 2: ("value", "string")},
    "OpDef": {1: ("name", "string"), 2: ("input_arg", "ArgDef"), 3: ("output_arg", "ArgDef")},
    "ArgDef": {1: ("name", "string"), 5: ("number_attr", "string"), 6: ("type_list_attr", "string")},
    "SavedModel": {1: ("saved_model_schema_version", "int"), 2: ("meta_graphs", "MetaGraphDef")},
    "MetaGraphDef": {
        1: ("meta_info_def", "MetaInfoDef"),
        2: ("graph_def", "GraphDef"),
        3: ("saver_def", "SaverDef"),
        5: ("signature_def", "SignatureEntry"),
    },
    "MetaInfoDef": {2: ("stripped_op_list", "OpList"), 4: ("tags", "string")},
    "OpList": {1: ("op", "OpDef")},
    "SaverDef": {3: ("restore_op_name", "string")},
    "SignatureEntry": {1: ("key", "string"), 2: ("value", "SignatureDef")},
    "SignatureDef": {1: ("inputs", "TensorEntry"), 2: ("outputs", "TensorEntry"), 3: ("method_name", "string")},
    "TensorEntry": {1: ("key", "string"), 2: ("value", "TensorInfo")},
    "TensorInfo": {1: ("name", "string"), 2: ("dtype", "type"), 3: ("tensor_shape", "TensorShapeProto")},
    "BundleHeaderProto": {1: ("num_shards", "int"), 2: ("endianness", "int")},
    "BundleEntryProto": {
        1: ("dtype", "type"),
        2: ("shape", "TensorShapeProto"),
        3: ("shard_id", "int"),
        4: ("offset", "int"),
        5: ("size", "int"),
        7: ("slices", "TensorSliceProto"),
    },
    "TensorSliceProto": {},
}
"""The fields of each message by number, as (name, kind).

A kind is the name of a message or: int, float, double, bool; string (read as str), bytes (read as bytes), content
(bytes read as an array); type (the number of a DataType); floats, doubles, varints (packed numbers, read as an
array).
"""

_NAMED = {name: dict(fields.values()) for name, fields in MESSAGES.items()}
_PACKED: dict[str, np.dtype[Any]] = {
    "floats": np.dtype("<f4"),
    "doubles": np.dtype("<f8"),
    "varints": np.dtype("u1"),
}
_WIRES = {"int": VARINT, "type": VARINT, "bool": VARINT, "float": FIXED32, "double": FIXED64}


@dataclass(slots=True)
class Record:
    """A message: for each field name the values of all its occurrences. `line` is 0 in a binary file."""

    message: str
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
        inner: Record = self.last(name, Record(_NAMED[self.message][name]))
        return inner


# --------------------------------------------------------------------- binary


def decode(buffer: MappedFile, message: str, start: int, stop: int, depth: int = 0) -> Record:
    """Return the message of the named type between two positions. Packed numbers are views of the mapped file.

    Unknown fields are skipped. Raise FileError for a damaged message.
    """
    if depth >= MAX_GRAPH_NESTING:
        raise FileError(f"messages are nested deeper than {MAX_GRAPH_NESTING}")
    kinds = MESSAGES[message]
    fields: dict[str, list[Any]] = {}
    for number, wire, low, high in buffer.fields(start, stop):
        if number not in kinds:
            continue
        name, kind = kinds[number]
        value = _value(buffer, message, name, kind, wire, low, high, depth)
        values = fields.setdefault(name, [])
        values.append(value)
        if kind in _PACKED and len(values) > MAX_FIELD_PIECES:
            raise FileError(
                f"the values of field '{name}' at byte {low} are in more than {MAX_FIELD_PIECES} pieces"
            )
    return Record(message, fields)


def _value(
    buffer: MappedFile, message: str, name: str, kind: str, wire: int, low: int, high: int, depth: int
) -> Any:
    if kind in _PACKED:
        single = {"floats": FIXED32, "doubles": FIXED64, "varints": VARINT}[kind]
        if wire not in (BYTES, single):
            raise _wrong_wire(message, name, low, wire)
        dtype = _PACKED[kind]
        if (high - low) % dtype.itemsize:
            raise FileError(f"the bytes of '{name}' at byte {low} are not a multiple of {dtype.itemsize}")
        return np.frombuffer(buffer.data, dtype, (high - low) // dtype.itemsize, low)
    if wire != _WIRES.get(kind, BYTES):
        raise _wrong_wire(message, name, low, wire)
    if kind in MESSAGES:
        return decode(buffer, kind, low, high, depth + 1)
    if kind == "string":
        return buffer.text(low, high)
    if kind == "bytes":
        return bytes(buffer.data[low:high])
    if kind == "content":
        return np.frombuffer(buffer.data, np.uint8, high - low, low)
    if kind == "float":
        return as_written(np.frombuffer(buffer.data, "<f4", 1, low)[0])
    if kind == "double":
        return float(np.frombuffer(buffer.data, "<f8", 1, low)[0])
    number = buffer.varint(low, high)[0]
    return to_int64(number) if kind == "int" else number & 0xFFFFFFFF if kind == "type" else bool(number)


def _wrong_wire(message: str, name: str, low: int, wire: int) -> FileError:
    return FileError(f"field '{name}' of {message} at byte {low} has wire type {wire}, which is wrong")


def varints(data: Array) -> Array:
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


# ----------------------------------------------------------------------- text


def from_text(block: Block, message: str) -> Record:
    """Return the message of the named type that a text file's block holds. Unknown fields are skipped."""
    kinds = _NAMED[message]
    record = Record(message, line=block.line)
    for entry in block:
        kind = kinds.get(entry.name)
        if kind is not None:
            record.fields.setdefault(entry.name, []).append(_text_value(block, entry, kind))
    return record


def _text_value(block: Block, entry: Entry, kind: str) -> Any:
    value = entry.value
    if kind in MESSAGES:
        return from_text(block.as_block(entry), kind)
    if kind in ("string", "bytes", "content"):
        text = block.string(entry).encode("utf-8", "surrogateescape")
        if kind == "string":
            return text.decode("utf-8", "backslashreplace")
        return text if kind == "bytes" else np.frombuffer(text, np.uint8)
    if kind == "type" and isinstance(value, Word):
        return str(value)
    if kind == "varints" and isinstance(value, Word) and entry.name == "type":
        return np.array([value], object)
    if not isinstance(value, (int, float)):
        raise block.fail(f"'{entry.name}' must be a number, got {shortened_text(value)}", entry.line)
    if kind in ("float", "double"):
        return float(value)
    if kind in ("floats", "doubles"):
        with np.errstate(over="ignore"):
            return np.array([value], np.float32 if kind == "floats" else np.float64)
    if isinstance(value, float) or (kind == "bool" and not isinstance(value, Flag) and value not in (0, 1)):
        raise block.fail(
            f"'{entry.name}' must be {'true or false' if kind == 'bool' else 'an integer'}", entry.line
        )
    return bool(value) if kind == "bool" else np.array([int(value)], object) if kind == "varints" else int(value)


def numbers(record: Record, name: str) -> Array:
    """Return all values of a packed field as one array: int64 for varints, or object if a text file
    names enums.
    """
    parts = record.all(name)
    kind = _NAMED[record.message][name]
    if kind != "varints":
        return np.concatenate(parts) if len(parts) > 1 else parts[0] if parts else np.zeros(0, np.float32)
    if parts and parts[0].dtype == object:
        values = [v for part in parts for v in part]
        if any(isinstance(v, str) for v in values):
            return np.array(values, object)
        return np.array([to_int64(v & 0xFFFFFFFFFFFFFFFF) for v in values], np.int64)
    return varints(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def map_entries(records: list[Record]) -> Iterator[tuple[str, Any]]:
    """Yield the keys and values of a map field. A missing value is an empty message or text."""
    for entry in records:
        kind = _NAMED[entry.message]["value"]
        default: Any = Record(kind) if kind in MESSAGES else ""
        yield entry.last("key", ""), entry.last("value", default)
