"""Schema: the messages of a .proto file, as classes with declared fields, as layers declare theirs.

The fields of a network are checked and typed by it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from anylayer.errors import FileError, nearest
from anylayer.layer import Enum, Field, Message
from anylayer.layer.fields import INTEGERS, MISSING, SCALARS, TRUE_WORDS
from anylayer.network import Flag, Word
from anylayer.protobuf.tree import Block, Entry, Value, shortened_text

_FALSE = (0, "f", "False", "false")
MessageClass = type[Message]


def new_message(name: str) -> MessageClass:
    """Return a message without fields. `name` includes the outer messages ("A.B")."""
    return type(name.rpartition(".")[2], (Message,), {"__qualname__": name})


def name_of(kind: Any) -> str:
    """Return the name of a field's type: of a message with the outer ones, or as the .proto spells it.

    The parameter message of a layer's class has the name of its field in a layer ("convolution_param").
    """
    if isinstance(kind, type):
        return str(getattr(kind, "message", "") or kind.__qualname__)
    return kind.name if isinstance(kind, Enum) else str(kind)


def is_undeclared(kind: Any) -> bool:
    """Return whether the type of a field is declared nowhere: an import of the file may declare it."""
    return isinstance(kind, str) and kind not in SCALARS


def numbered(message: MessageClass) -> dict[int, Field]:
    """Return the fields of a message by number."""
    return {f.number: f for f in message.fields.values()}


def defaults(message: MessageClass) -> dict[str, Any]:
    """Return the values that a message declares for absent fields."""
    absent = (None, MISSING)
    return {n: f.default for n, f in message.fields.items() if f.default not in absent and not f.repeated}


@dataclass(slots=True)
class Schema:
    """The messages and enums of one .proto file. Their names include the outer messages ("A.B").

    `partial` means that the file declares only a fork's additions. Fields of a layer that it does not declare are
    then checked by the layer's class.
    """

    file: str
    messages: dict[str, MessageClass] = field(default_factory=dict)
    enums: dict[str, Enum] = field(default_factory=dict)
    partial: bool = False

    def resolve(self) -> None:
        """Replace the name of each field's type by the message or enum that has it in the innermost scope."""
        for scope, message in self.messages.items():
            for name, declared in message.fields.items():
                if is_undeclared(declared.kind):
                    kind = self._find(str(declared.kind), scope)
                    message.fields[name] = replace(declared, kind=kind or declared.kind)

    def _find(self, kind: str, scope: str) -> MessageClass | Enum | None:
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
            merged = self.messages.setdefault(name, new_message(name))
            numbers = numbered(merged)
            for declared in message.fields.values():
                if declared.number not in numbers:
                    kind = declared.kind if isinstance(declared.kind, str) else name_of(declared.kind)
                    merged.fields.setdefault(declared.name, replace(declared, kind=kind))
        self.enums = {**base.enums, **self.enums}
        self.resolve()

    def fields(self) -> dict[str, Field]:
        """Return LayerParameter's fields. Fields of undeclared types are left out, also in the messages inside."""
        copies = {name: new_message(name) for name in self.messages}
        for name, message in self.messages.items():
            for declared in message.fields.values():
                kind = copies[name_of(declared.kind)] if isinstance(declared.kind, type) else declared.kind
                if not is_undeclared(kind):
                    copies[name].fields[declared.name] = replace(declared, kind=kind)
        return copies["LayerParameter"].fields

    def check(self, block: Block, message: str = "NetParameter") -> None:
        """Convert every value to its declared type, in place. Set `repeated` and `defaults` of every block.

        Raise FileError with the line for a field that is not declared, and for a value that does not have its
        type.
        """
        _check(block, self.messages[message], self.file, self.partial)


def _check(block: Block, message: MessageClass, file: str, partial: bool) -> None:
    seen: dict[str, int] = {}
    for entry in block:
        declared = message.fields.get(entry.name)
        if declared is None and partial and name_of(message) == "LayerParameter":
            continue
        if declared is None:
            hint = nearest(entry.name, message.fields)
            raise block.fail(f"{name_of(message)} of {file} has no field '{entry.name}'{hint}", entry.line)
        seen[entry.name] = seen.get(entry.name, 0) + 1
        if seen[entry.name] > 1 and not declared.repeated:
            raise block.fail(f"'{entry.name}' is given more than once, but it is not repeated", entry.line)
        entry.value = _typed_value(block, entry, declared)
        if isinstance(entry.value, Block) and isinstance(declared.kind, type):
            _check(entry.value, declared.kind, file, partial)
    for name, declared in message.fields.items():
        if declared.default is MISSING and not declared.repeated and name not in seen:
            raise block.fail(f"'{name}' is missing, which {name_of(message)} of {file} requires")
    block.repeated = frozenset(n for n, d in message.fields.items() if d.repeated)
    block.defaults = defaults(message)


def _typed_value(block: Block, entry: Entry, declared: Field) -> Value:
    """Return an entry's value in its declared type. Raise FileError if it does not have this type."""
    kind, value = declared.kind, entry.value
    if isinstance(kind, Enum):
        return _word(block, entry, kind)
    if isinstance(kind, type):
        is_stored = hasattr(value, "array")  # a blob of a binary file is not a Block
        return value if is_stored else block.as_block(entry)
    if kind in INTEGERS:
        number, (low, high) = block.as_integer(entry), INTEGERS[kind]
        if not low <= number <= high:
            raise block.fail(f"'{entry.name}' must lie in {low}..{high} ({kind}), got {number}", entry.line)
        return number
    if kind in ("float", "double"):
        real = block.as_number(entry)
        with np.errstate(over="ignore"):
            return float(np.float32(real)) if kind == "float" else float(real)
    if kind == "bool":
        if value in TRUE_WORDS or value in _FALSE:
            return Flag(value in TRUE_WORDS)
        raise block.fail(f"'{entry.name}' must be true or false, got {shortened_text(value)}", entry.line)
    return block.string(entry) if kind in SCALARS else value


def _word(block: Block, entry: Entry, enum: Enum) -> Word:
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
