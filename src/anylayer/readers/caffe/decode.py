"""The network in a .caffemodel: its layers with their parameters, decoded to the Blocks that a prototxt has.

Forks of Caffe use the same field numbers of a layer for different parameter messages. A number means what the
user's schema declares, or what a class of the layer's type declares, or what Caffe itself declares. Otherwise the
file is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from anylayer.errors import DialectError, FileError, at, need, wording
from anylayer.layer import Definition, Enum, Field, Registry
from anylayer.network import Flag, Word, as_written
from anylayer.readers._limits import MAX_BLOBS, MAX_NESTING
from anylayer.readers._protobuf import BYTES, FIXED32, FIXED64, VARINT, MappedFile
from anylayer.readers._tree import Block, Entry, Value
from anylayer.readers.caffe.proto_file import core
from anylayer.readers.caffe.schema import SCALARS, EnumType, FieldType, MessageType, Schema
from anylayer.readers.caffe.upgrade import v2_type_name
from anylayer.readers.caffe.wire import read_blob

_FORMATS = {
    "float": "<f",
    "double": "<d",
    "fixed32": "<I",
    "fixed64": "<Q",
    "sfixed32": "<i",
    "sfixed64": "<q",
}


def read_binary(path: Path, schema: Schema | None = None, dialect: str | None = None) -> Block:
    """Return the network in a .caffemodel. The values of blobs stay in the mapped file until they are needed."""
    with at(str(path)):
        buffer = MappedFile(path)
        root = Block(str(path))
        net = (schema or core()).messages["NetParameter"]
        _Decoder(buffer, schema, dialect).message(root, net, 0, buffer.size, 0)
        return root


def _remedy() -> str:
    return f"Give the prototxt, or the fork's caffe.proto with {wording('proto=...', '--proto')}"


class _Decoder:
    """A decoder of the messages in one file.

    `in_training` is true inside a layer that computes nothing at inference. `singular` holds the entry of each
    singular field that has been read, and `blobs` the index of a layer's last blob, both by the identity of the
    block and the name of the field.
    """

    def __init__(self, buffer: MappedFile, schema: Schema | None, dialect: str | None) -> None:
        self.buffer, self.schema, self.dialect = buffer, schema, dialect
        self.registry = Registry.of("caffe")
        self.in_training = False
        self.singular: dict[tuple[int, str], Entry] = {}
        self.blobs: dict[tuple[int, str], int] = {}

    def message(self, block: Block, message: MessageType, start: int, stop: int, depth: int) -> None:
        """Add the fields of the message between two positions to `block`.

        Field numbers that the message does not declare are skipped in the network and its layers, and refused in
        the parameter messages of layers.
        """
        need(depth <= MAX_NESTING, f"messages are nested deeper than {MAX_NESTING}", FileError)
        if message.name in ("LayerParameter", "V1LayerParameter") and self.schema is None:
            self.layer(block, message, start, stop, depth)
            return
        declared = message.numbered()
        for number, kind, low, high in self.buffer.fields(start, stop):
            if number in declared:
                self.field(block, declared[number], kind, low, high, depth)
            elif depth > 1 and self.in_training:
                block.add(f"#{number}", Word("?"))  # the layer's class refuses it if the layer has to compute
            elif depth > 1:
                raise FileError(f"field {number} of {message.name} is unknown. {_remedy()}")

    def layer(self, block: Block, message: MessageType, start: int, stop: int, depth: int) -> None:
        """Add the fields of a layer without a schema.

        The generic fields come first, because the layer's type decides the meaning of the other fields.
        """
        declared = message.numbered()
        params = []
        for number, kind, low, high in self.buffer.fields(start, stop):
            inner = declared.get(number)
            if inner is None or (inner.kind not in SCALARS and inner.type is None and inner.kind != "BlobProto"):
                params.append((number, kind, low, high))
            else:
                self.field(block, inner, kind, low, high, depth)
        self.in_training = any(_cls(d).role for d in self.definitions(block))
        with at(f"layer '{block.text('name')}'"):
            for number, kind, low, high in params:
                used = (
                    frozenset(n for n, _, _, _ in self.buffer.fields(low, high)) if kind == BYTES else frozenset()
                )
                field = self.parameter(block, number, declared.get(number), message.name, used)
                if field is not None:
                    self.field(block, field, kind, low, high, depth)

    def parameter(
        self, layer: Block, number: int, base: FieldType | None, era: str, used: frozenset[int]
    ) -> FieldType | None:
        """Return the parameter message that a field number means in a layer.

        `base` is Caffe's own field with this number, `era` the name of the layer's message ("V1LayerParameter" in
        old files), and `used` the field numbers that the parameter message has in the file. Return None if the
        field serves training or another type of layer. Raise FileError if its meaning is unknown, and DialectError
        if forks disagree on it.
        """
        definitions = self.definitions(layer)
        candidates = _by_number(definitions, number, self.dialect) if era == "LayerParameter" else []
        if base is not None and not candidates:
            candidates = [d for d in definitions if _cls(d).message == base.name]
            if not candidates and not definitions:
                candidates = [d for d in self.registry.definitions() if d.typed and _cls(d).message == base.name][
                    :1
                ]
        if self.dialect is not None:
            candidates = [d for d in candidates if self.dialect in d.dialects] or candidates
        if not candidates:
            if self.in_training or (base is not None and definitions):
                return None
            raise FileError(f"the meaning of parameter message {number} is unknown. {_remedy()}")
        is_caffes = base is not None and era == "LayerParameter"
        message = self.common_message(candidates, used, self.type(layer), is_caffes)
        return FieldType(message.name, number, message.name, type=message)

    def common_message(
        self, candidates: list[Definition], used: frozenset[int], type_: str, is_caffes: bool
    ) -> MessageType:
        """Return the message that the candidates declare, if they agree on the field numbers that are used.

        With `is_caffes` the field number is one of Caffe's own, and candidates without a dialect take precedence.
        Raise DialectError if the candidates disagree.
        """
        fitting = [d for d in candidates if used <= set(message_type(_cls(d)).numbered())] or candidates
        meanings = {_meaning(message_type(_cls(d)), used) for d in fitting}
        if len(meanings) > 1 and is_caffes:
            fitting = [d for d in fitting if not d.dialects] or fitting
            meanings = {_meaning(message_type(_cls(d)), used) for d in fitting}
        if len(meanings) > 1:
            names = sorted({name for d in fitting for name in d.dialects})
            raise DialectError(
                f"'{type_}' has different parameters in different forks ({', '.join(names)}), "
                f"give {wording('dialect=...', '--dialect')}",
                dialects=names,
            )
        return message_type(_cls(fitting[0]))

    def definitions(self, layer: Block) -> list[Definition]:
        """Return the built-in classes of the layer's type."""
        return [d for d in self.registry.find(self.type(layer)) if d.typed]

    def type(self, layer: Block) -> str:
        """Return the current name of the layer's type."""
        entry = layer.entry("type")
        if entry is None:
            return ""
        return v2_type_name(entry.value, {}) if isinstance(entry.value, Word) else str(entry.value)

    def field(self, block: Block, declared: FieldType, kind: int, low: int, high: int, depth: int) -> None:
        """Add one occurrence of a field.

        All values of a repeated field are kept, but only the last one of a singular field.
        """
        key = (id(block), declared.name)
        if declared.kind == "BlobProto":
            _expect(declared, kind, BYTES)
            count = self.blobs[key] = self.blobs.get(key, -1) + 1
            name = self.singular.get((id(block), "name"))
            with at(f"layer '{name.value if name else ''}'"), at(f"blob {count}"):
                need(
                    count < MAX_BLOBS, f"the layer has more than {MAX_BLOBS} blobs, which is the limit", FileError
                )
                block.add(declared.name, read_blob(self.buffer, low, high))
            return
        entry = self.singular.get(key)
        if isinstance(declared.type, MessageType):
            _expect(declared, kind, BYTES)
            inner = block.as_block(entry) if entry is not None else Block(block.file)
            if entry is None:
                self.add(block, declared, inner)
            self.message(inner, declared.type, low, high, depth + 1)
            return
        if not isinstance(declared.type, EnumType) and declared.kind not in SCALARS:
            return
        values = self.values(declared, kind, low, high)
        if entry is not None and values:
            entry.value = values[-1]
            return
        for value in values if declared.repeated else values[-1:]:
            self.add(block, declared, value)

    def add(self, block: Block, declared: FieldType, value: Value) -> None:
        """Append an occurrence of a field. Remember that of a singular field, because the next one replaces it."""
        block.add(declared.name, value)
        if not declared.repeated:
            self.singular[id(block), declared.name] = block.entries[-1]

    def values(self, declared: FieldType, kind: int, low: int, high: int) -> list[Value]:
        """Return the value of a scalar field, or the values of a packed field."""
        if declared.kind in ("string", "bytes"):
            _expect(declared, kind, BYTES)
            return [self.buffer.text(low, high)]
        form = _FORMATS.get(declared.kind)
        if form is not None:
            size = struct.calcsize(form)
            if kind != BYTES:
                _expect(declared, kind, FIXED32 if size == 4 else FIXED64)
            rule = f"'{declared.name}': {high - low} bytes are not a multiple of {size}"
            need((high - low) % size == 0, rule, FileError)
            values = [v for (v,) in struct.iter_unpack(form, self.buffer.data[low:high])]
            return [as_written(v) for v in values] if declared.kind == "float" else values
        if kind != BYTES:
            _expect(declared, kind, VARINT)
        convert = _varint(declared)
        numbers = []
        while low < high:
            number, low = self.buffer.varint(low, high)
            numbers.append(convert(number))
        return numbers


def _expect(declared: FieldType, kind: int, expected: int) -> None:
    """Raise FileError unless a field has the wanted wire type."""
    need(
        kind == expected,
        f"field {declared.number} ('{declared.name}') has wire type {kind}, expected {expected}: the file was "
        f"written with another caffe.proto. {_remedy()}",
        FileError,
    )


def _varint(declared: FieldType) -> Callable[[int], Value]:
    """Return the function that turns the varint of a field into its value."""
    if isinstance(declared.type, EnumType):
        words = {number: Word(word) for word, number in reversed(declared.type.numbers.items())}
        return lambda n: words.get(_as_signed(n, 32), _as_signed(n, 32))
    if declared.kind == "bool":
        return lambda n: Flag(n != 0)
    if declared.kind in ("sint32", "sint64"):
        return lambda n: (n >> 1) ^ -(n & 1)
    if declared.kind == "uint32":
        return lambda n: n & 0xFFFFFFFF
    if declared.kind == "uint64":
        return lambda n: n
    return lambda n: _as_signed(n, 32 if declared.kind == "int32" else 64)


def _as_signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _cls(definition: Definition) -> Any:
    return definition.cls


def _by_number(definitions: list[Definition], number: int, dialect: str | None) -> list[Definition]:
    """Return the classes whose message has this number in LayerParameter, preferably in the given dialect."""
    named = [d for d in definitions if dialect is not None and _cls(d).numbers.get(dialect) == number]
    return named or [d for d in definitions if number in _cls(d).numbers.values()]


def _meaning(message: MessageType, used: frozenset[int]) -> frozenset[tuple[int, str, str, bool]]:
    """Return what a message declares for the field numbers that are used."""
    return frozenset((f.number, f.name, f.kind, f.repeated) for f in message.fields.values() if f.number in used)


@cache
def message_type(cls: Any) -> MessageType:
    """Return the fields that a layer's class, or a message inside it, declares."""
    message = MessageType(getattr(cls, "message", "") or cls.__name__)
    for name, declared in cls.fields.items():
        message.fields[name] = _field_type(name, declared)
    return message


def _field_type(name: str, declared: Field) -> FieldType:
    kind: Any = declared.kind
    if isinstance(kind, Enum):
        return FieldType(name, declared.number, repr(kind), declared.repeated, type=EnumType(name, kind.numbers))
    if isinstance(kind, str):
        return FieldType(name, declared.number, kind, declared.repeated)
    inner = message_type(kind)
    return FieldType(name, declared.number, inner.name, declared.repeated, type=inner)
