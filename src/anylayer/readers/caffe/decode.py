"""The network in a .caffemodel: its layers with their parameters, decoded to the Blocks that a prototxt has.

Forks of Caffe use the same field numbers of a layer for different parameter messages. A number means what the
user's schema declares, or what a class of the layer's type declares, or what Caffe itself declares. Otherwise the
file is refused.
"""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import DialectError, FileError, at, need, wording
from anylayer.layer import Definition, Field, Registry
from anylayer.network import Word
from anylayer.protobuf.binary import BYTES, MAX_NESTING, MappedFile, need_wire_type, scalars
from anylayer.protobuf.proto_file import core
from anylayer.protobuf.schema import MessageClass, Schema, is_undeclared, name_of, numbered
from anylayer.protobuf.tree import Block, Entry, Value
from anylayer.readers._limits import MAX_BLOBS
from anylayer.readers.caffe.upgrade import v2_type_name
from anylayer.readers.caffe.wire import read_blob


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
        self.other_schema = f": the file was written with another caffe.proto. {_remedy()}"
        self.singular: dict[tuple[int, str], Entry] = {}
        self.blobs: dict[tuple[int, str], int] = {}

    def message(self, block: Block, message: MessageClass, start: int, stop: int, depth: int) -> None:
        """Add the fields of the message between two positions to `block`.

        Field numbers that the message does not declare are skipped in the network and its layers, and refused in
        the parameter messages of layers.
        """
        need(depth <= MAX_NESTING, f"messages are nested deeper than {MAX_NESTING}", FileError)
        if name_of(message) in ("LayerParameter", "V1LayerParameter") and self.schema is None:
            self.layer(block, message, start, stop, depth)
            return
        declared = numbered(message)
        for number, kind, low, high in self.buffer.fields(start, stop):
            if number in declared:
                self.field(block, declared[number], kind, low, high, depth)
            elif depth > 1 and self.in_training:
                block.add(f"#{number}", Word("?"))  # the layer's class refuses it if the layer has to compute
            elif depth > 1:
                raise FileError(f"field {number} of {name_of(message)} is unknown. {_remedy()}")

    def layer(self, block: Block, message: MessageClass, start: int, stop: int, depth: int) -> None:
        """Add the fields of a layer without a schema.

        The generic fields come first, because the layer's type decides the meaning of the other fields.
        """
        declared = numbered(message)
        params = []
        for number, kind, low, high in self.buffer.fields(start, stop):
            inner = declared.get(number)
            if inner is None or is_undeclared(inner.kind):
                params.append((number, kind, low, high))
            else:
                self.field(block, inner, kind, low, high, depth)
        self.in_training = any(d.layer_class.role for d in self.definitions(block))
        with at(f"layer '{block.text('name')}'"):
            for number, kind, low, high in params:
                used = (
                    frozenset(n for n, _, _, _ in self.buffer.fields(low, high)) if kind == BYTES else frozenset()
                )
                field = self.parameter(block, number, declared.get(number), name_of(message), used)
                if field is not None:
                    self.field(block, field, kind, low, high, depth)

    def parameter(
        self, layer: Block, number: int, base: Field | None, era: str, used: frozenset[int]
    ) -> Field | None:
        """Return the parameter message that a field number means in a layer.

        `base` is Caffe's own field with this number, `era` the name of the layer's message ("V1LayerParameter" in
        old files), and `used` the field numbers that the parameter message has in the file. Return None if the
        field serves training or another type of layer. Raise FileError if its meaning is unknown, and DialectError
        if forks disagree on it.
        """
        definitions = self.definitions(layer)
        candidates = _by_number(definitions, number, self.dialect) if era == "LayerParameter" else []
        if base is not None and not candidates:
            candidates = [d for d in definitions if d.layer_class.message == base.name]
            if not candidates and not definitions:
                every = (d for d in self.registry.definitions() if d.typed)
                candidates = [d for d in every if d.layer_class.message == base.name][:1]
        if self.dialect is not None:
            candidates = [d for d in candidates if self.dialect in d.dialects] or candidates
        if not candidates:
            if self.in_training or (base is not None and definitions):
                return None
            raise FileError(f"the meaning of parameter message {number} is unknown. {_remedy()}")
        is_caffes = base is not None and era == "LayerParameter"
        message = self.common_message(candidates, used, self.type(layer), is_caffes)
        return Field(number, message, None, name=name_of(message))

    def common_message(
        self, candidates: list[Definition], used: frozenset[int], type_: str, is_caffes: bool
    ) -> MessageClass:
        """Return the message that the candidates declare, if they agree on the field numbers that are used.

        With `is_caffes` the field number is one of Caffe's own, and candidates without a dialect take precedence.
        Raise DialectError if the candidates disagree.
        """
        fitting = [d for d in candidates if used <= set(numbered(d.layer_class))] or candidates
        meanings = {_meaning(d.layer_class, used) for d in fitting}
        if len(meanings) > 1 and is_caffes:
            fitting = [d for d in fitting if not d.dialects] or fitting
            meanings = {_meaning(d.layer_class, used) for d in fitting}
        if len(meanings) > 1:
            names = sorted({name for d in fitting for name in d.dialects})
            raise DialectError(
                f"'{type_}' has different parameters in different forks ({', '.join(names)}), "
                f"give {wording('dialect=...', '--dialect')}",
                dialects=names,
            )
        return fitting[0].layer_class

    def definitions(self, layer: Block) -> list[Definition]:
        """Return the built-in classes of the layer's type."""
        return [d for d in self.registry.find(self.type(layer)) if d.typed]

    def type(self, layer: Block) -> str:
        """Return the current name of the layer's type."""
        entry = layer.entry("type")
        if entry is None:
            return ""
        return v2_type_name(entry.value, {}) if isinstance(entry.value, Word) else str(entry.value)

    def field(self, block: Block, declared: Field, kind: int, low: int, high: int, depth: int) -> None:
        """Add one occurrence of a field.

        All values of a repeated field are kept, but only the last one of a singular field.
        """
        key = (id(block), declared.name)
        is_blob = name_of(declared.kind).rpartition(".")[2] == "BlobProto"
        if is_undeclared(declared.kind) and not is_blob:
            return
        need_wire_type(declared, kind, low, self.other_schema)
        if is_blob:
            count = self.blobs[key] = self.blobs.get(key, -1) + 1
            name = self.singular.get((id(block), "name"))
            with at(f"layer '{name.value if name else ''}'"), at(f"blob {count}"):
                rule = f"the layer has more than {MAX_BLOBS} blobs, which is the limit"
                need(count < MAX_BLOBS, rule, FileError)
                block.add(declared.name, read_blob(self.buffer, low, high))
            return
        entry = self.singular.get(key)
        if isinstance(declared.kind, type):
            inner = block.as_block(entry) if entry is not None else Block(block.file)
            if entry is None:
                self.add(block, declared, inner)
            self.message(inner, declared.kind, low, high, depth + 1)
            return
        values = scalars(self.buffer, declared, kind, low, high)
        if entry is not None and values:
            entry.value = values[-1]
            return
        for value in values if declared.repeated else values[-1:]:
            self.add(block, declared, value)

    def add(self, block: Block, declared: Field, value: Value) -> None:
        """Append an occurrence of a field. Remember that of a singular field, because the next one replaces it."""
        block.add(declared.name, value)
        if not declared.repeated:
            self.singular[id(block), declared.name] = block.entries[-1]


def _by_number(definitions: list[Definition], number: int, dialect: str | None) -> list[Definition]:
    """Return the classes whose message has this number in LayerParameter, preferably in the given dialect."""
    named = [d for d in definitions if dialect is not None and d.layer_class.numbers.get(dialect) == number]
    return named or [d for d in definitions if number in d.layer_class.numbers.values()]


def _meaning(message: MessageClass, used: frozenset[int]) -> frozenset[tuple[int, str, str, bool]]:
    """Return what a message declares for the field numbers that are used."""
    used_fields = (f for f in message.fields.values() if f.number in used)
    return frozenset((f.number, f.name, getattr(f.kind, "__name__", str(f.kind)), f.repeated) for f in used_fields)
