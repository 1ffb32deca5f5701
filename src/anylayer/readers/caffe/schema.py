"""Schema: the declarations of a .proto file, by which the fields of a network are checked and typed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anylayer.errors import FileError, nearest
from anylayer.layer import Enum, Field, Message
from anylayer.network import Flag, Word
from anylayer.readers._tree import Block, Entry, Value, shortened_text

INTEGERS = {
    **dict.fromkeys(("int32", "sint32", "sfixed32"), (-(2**31), 2**31 - 1)),
    **dict.fromkeys(("int64", "sint64", "sfixed64"), (-(2**63), 2**63 - 1)),
    **dict.fromkeys(("uint32", "fixed32"), (0, 2**32 - 1)),
    **dict.fromkeys(("uint64", "fixed64"), (0, 2**64 - 1)),
}
"""The range of each integer type of protobuf."""
SCALARS = frozenset([*INTEGERS, "float", "double", "bool", "string", "bytes"])
_TRUE, _FALSE = (1, "t", "True", "true"), (0, "f", "False", "false")


@dataclass(slots=True)
class EnumType:
    """An enum: the number of each word. `name` includes the outer message: "PoolingParameter.PoolMethod"."""

    name: str
    numbers: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class FieldType:
    """A declared field. `kind` is its type as the file spells it.

    `type` is the message or enum that `kind` names. `Schema.resolve` sets it, if this message or enum is declared.
    """

    name: str
    number: int
    kind: str
    repeated: bool = False
    required: bool = False
    default: Value | None = None
    line: int = 0
    type: MessageType | EnumType | None = None


@dataclass(slots=True)
class MessageType:
    """A message: its fields by name."""

    name: str
    fields: dict[str, FieldType] = field(default_factory=dict)

    def numbered(self) -> dict[int, FieldType]:
        """Return the fields by number."""
        return {f.number: f for f in self.fields.values()}


@dataclass(slots=True)
class Schema:
    """The messages and enums of one .proto file. Their names include the outer messages ("A.B").

    `partial` means that the file declares only a fork's additions. Fields of a layer that it does not declare are
    then checked by the layer's class.
    """

    file: str
    messages: dict[str, MessageType] = field(default_factory=dict)
    enums: dict[str, EnumType] = field(default_factory=dict)
    partial: bool = False

    def resolve(self) -> None:
        """Set the type of each field to the message or enum that its kind names, in the innermost scope that
        has it.
        """
        for message in self.messages.values():
            for declared in message.fields.values():
                if declared.kind not in SCALARS:
                    declared.type = self._find(declared.kind, message.name)

    def _find(self, kind: str, scope: str) -> MessageType | EnumType | None:
        names = [kind.lstrip(".")]
        while "." in names[-1]:  # the name may begin with the package
            names.append(names[-1].split(".", 1)[1])
        while True:
            for name in names:
                full = f"{scope}.{name}" if scope else name
                declared = self.messages.get(full) or self.enums.get(full)
                if declared is not None:
                    return declared
            if not scope:
                return None
            scope = scope.rpartition(".")[0]

    def require(self, *names: str) -> None:
        """Raise FileError if the file lacks one of these messages."""
        for name in names:
            if name not in self.messages:
                hint = nearest(name, self.messages)
                raise FileError(f"this is not a caffe.proto: it does not declare message {name}{hint}", self.file)

    def complete(self, base: Schema) -> None:
        """Add what `base` declares and this file does not, because this file declares additions to it."""
        self.partial = True
        for name, message in base.messages.items():
            own = self.messages.setdefault(name, MessageType(name))
            numbers = own.numbered()
            for declared in message.fields.values():
                if declared.number not in numbers:
                    own.fields.setdefault(declared.name, replace(declared))
        self.enums = {**base.enums, **self.enums}
        self.resolve()

    def fields(self) -> dict[str, Field]:
        """Return LayerParameter's fields in the form in which layer classes declare theirs.

        Fields whose type is unknown are left out.
        """
        classes: dict[str, type[Message]] = {}
        return _fields(self.messages["LayerParameter"], classes)

    def check(self, block: Block, message: str = "NetParameter") -> None:
        """Convert every value to its declared type, in place. Set `repeated` and `defaults` of every block.

        Raise FileError with the line for a field that is not declared, and for a value that does not have its
        type.
        """
        _check(block, self.messages[message], self.file, self.partial)


def _fields(message: MessageType, classes: dict[str, type[Message]]) -> dict[str, Field]:
    """Return a message's fields.

    `classes` are the classes for messages, including those that are still being made.
    """
    fields: dict[str, Field] = {}
    for name, declared in message.fields.items():
        kind: Any = declared.kind
        if isinstance(declared.type, EnumType):
            kind = Enum()
            kind.numbers.update(declared.type.numbers)
        elif isinstance(declared.type, MessageType):
            inner = declared.type
            kind = classes.get(inner.name)
            if kind is None:
                kind = classes[inner.name] = type(inner.name.rpartition(".")[2], (Message,), {})
                kind.fields = _fields(inner, classes)
        elif kind not in SCALARS:
            continue
        default = None if declared.repeated else _default(declared)
        fields[name] = Field(declared.number, kind, default, declared.repeated, name=name)
    return fields


def _check(block: Block, message: MessageType, file: str, partial: bool) -> None:
    seen: dict[str, int] = {}
    for entry in block:
        declared = message.fields.get(entry.name)
        if declared is None and partial and message.name == "LayerParameter":
            continue
        if declared is None:
            hint = nearest(entry.name, message.fields)
            raise block.fail(f"{message.name} of {file} has no field '{entry.name}'{hint}", entry.line)
        seen[entry.name] = seen.get(entry.name, 0) + 1
        if seen[entry.name] > 1 and not declared.repeated:
            raise block.fail(f"'{entry.name}' is given more than once, but it is not repeated", entry.line)
        entry.value = _typed(block, entry, declared)
        if isinstance(entry.value, Block) and isinstance(declared.type, MessageType):
            _check(entry.value, declared.type, file, partial)
    for name, declared in message.fields.items():
        if declared.required and name not in seen:
            raise block.fail(f"'{name}' is missing, which {message.name} of {file} requires")
    block.repeated = frozenset(n for n, d in message.fields.items() if d.repeated)
    block.defaults = defaults(message)


def defaults(message: MessageType) -> dict[str, Any]:
    """Return the values that a message declares for absent fields."""
    return {n: _default(d) for n, d in message.fields.items() if d.default is not None and not d.repeated}


def _default(declared: FieldType) -> Value | None:
    value = declared.default
    if declared.kind in ("float", "double") and type(value) is int:
        return float(value)
    return value


def _typed(block: Block, entry: Entry, declared: FieldType) -> Value:
    """Return an entry's value in its declared type. Raise FileError if it does not have this type."""
    kind, value = declared.kind, entry.value
    if isinstance(declared.type, EnumType):
        return _word(block, entry, declared.type)
    if kind not in SCALARS:
        stored = hasattr(value, "array")  # a blob of a binary file is not a Block
        return block.as_block(entry) if isinstance(declared.type, MessageType) and not stored else value
    if kind in INTEGERS:
        number, (low, high) = block.as_integer(entry), INTEGERS[kind]
        if not low <= number <= high:
            raise block.fail(f"'{entry.name}' must lie in {low}..{high} ({kind}), got {number}", entry.line)
        return number
    if kind in ("float", "double"):
        return _float(block, entry, kind)
    if kind == "bool":
        if value in _TRUE or value in _FALSE:
            return Flag(value in _TRUE)
        raise block.fail(f"'{entry.name}' must be true or false, got {shortened_text(value)}", entry.line)
    return block.string(entry)


def _float(block: Block, entry: Entry, kind: str) -> float:
    value = block.as_number(entry)
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if kind == "float" else float(value)


def _word(block: Block, entry: Entry, enum: EnumType) -> Word:
    value = entry.value
    if isinstance(value, Word) and value in enum.numbers:
        return value
    for word, number in enum.numbers.items():
        if type(value) is int and value == number:
            return Word(word)
    listed = ", ".join(enum.numbers) if len(enum.numbers) <= 12 else f"the words of {enum.name}"
    quoted = isinstance(value, str) and not isinstance(value, Word)
    rest = (
        f"without quotes, got {shortened_text(value)}"
        if quoted
        else f"got {shortened_text(value)}{nearest(str(value), enum.numbers)}"
    )
    raise block.fail(f"'{entry.name}' must be one of {listed}, {rest}", entry.line)
