"""Block: the fields of one protobuf message as the file spells them. Text and binary files both become Blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol, Union

from anylayer.errors import FileError, shortened
from anylayer.network import Array, Flag, Word


class StoredBlob(Protocol):
    """A blob of weights in a file. Its values are read when they are needed."""

    def array(self) -> Array:
        """Return the values as float32."""


Value = Union[int, float, str, "Block", StoredBlob]
"""The value of a field: an int or Flag, a float, a str or Word, a Block, or in a binary file a stored blob."""


@dataclass(slots=True)
class Entry:
    """One occurrence of a field in a message, and its line in the file.

    `text` is the file's spelling of a float that Python spells differently ("0.10"), else "".
    """

    name: str
    value: Value
    line: int
    text: str = ""


@dataclass(slots=True)
class Block:
    """The fields of one message in file order. A field that the file writes several times has several entries.

    `line` is the message's line in the file, 0 in a binary file. `repeated` names the fields that a schema
    declares as repeated; `to_dict` always makes lists of them. `defaults` are the values that a schema declares
    for absent fields.
    """

    file: str
    line: int = 0
    entries: list[Entry] = field(default_factory=list)
    repeated: frozenset[str] = frozenset()
    defaults: dict[str, Any] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Entry]:
        return iter(self.entries)

    def __contains__(self, name: str) -> bool:
        return any(e.name == name for e in self.entries)

    def place(self, line: int | None = None) -> str:
        """Return the place for an error message: "deploy.prototxt:41", or the file alone if it is binary."""
        line = self.line if line is None else line
        return f"{self.file}:{line}" if line else self.file

    def fail(self, rule: str, line: int | None = None) -> FileError:
        """Return a FileError at `line`, by default at the first line of this block."""
        return FileError(rule, self.place(line))

    def add(self, name: str, value: Value, line: int | None = None, text: str = "") -> None:
        """Append one occurrence of a field, by default at the line of this block."""
        self.entries.append(Entry(name, value, self.line if line is None else line, text))

    def all(self, name: str) -> list[Value]:
        """Return every value of a field."""
        return [e.value for e in self.entries if e.name == name]

    def entry(self, name: str) -> Entry | None:
        """Return the only occurrence of a field, or None. Raise FileError for more than one."""
        occurrences = [e for e in self.entries if e.name == name]
        if len(occurrences) > 1:
            raise self.fail(f"'{name}' is given {len(occurrences)} times, once is allowed", occurrences[1].line)
        return occurrences[0] if occurrences else None

    def text(self, name: str, default: str = "") -> str:
        """Return the quoted string of a field that occurs at most once."""
        entry = self.entry(name)
        return default if entry is None else self.string(entry)

    def texts(self, name: str) -> list[str]:
        """Return the quoted strings of a repeated field."""
        return [self.string(e) for e in self.entries if e.name == name]

    def string(self, entry: Entry) -> str:
        """Return an entry's value. Raise FileError unless it is a quoted string."""
        if not isinstance(entry.value, str) or isinstance(entry.value, Word):
            raise self.fail(
                f"'{entry.name}' must be a quoted string, got {shortened_text(entry.value)}", entry.line
            )
        return str(entry.value)

    def integer(self, name: str, default: int = 0) -> int:
        """Return the integer of a field that occurs at most once."""
        entry = self.entry(name)
        return default if entry is None else self.as_integer(entry)

    def integers(self, name: str) -> list[int]:
        """Return the integers of a repeated field."""
        return [self.as_integer(e) for e in self.entries if e.name == name]

    def as_integer(self, entry: Entry) -> int:
        """Return an entry's value. Raise FileError unless it is an integer."""
        if type(entry.value) is not int:
            raise self.fail(f"'{entry.name}' must be an integer, got {shortened_text(entry.value)}", entry.line)
        return entry.value

    def numbers(self, name: str) -> list[float]:
        """Return the numbers of a repeated field. Raise FileError for any other value."""
        values = []
        for e in self.entries:
            if e.name == name:
                values.append(float(self.as_number(e)))
        return values

    def as_number(self, entry: Entry) -> int | float:
        """Return an entry's value. Raise FileError unless it is a number; a Flag is not one."""
        if not isinstance(entry.value, (int, float)) or isinstance(entry.value, Flag):
            raise self.fail(f"'{entry.name}' must be a number, got {shortened_text(entry.value)}", entry.line)
        return entry.value

    def blocks(self, name: str) -> list[Block]:
        """Return the messages of a repeated field."""
        return [self.as_block(e) for e in self.entries if e.name == name]

    def block(self, name: str) -> Block | None:
        """Return the message of a field that occurs at most once, or None."""
        entry = self.entry(name)
        return None if entry is None else self.as_block(entry)

    def as_block(self, entry: Entry) -> Block:
        """Return an entry's value. Raise FileError unless it is a message."""
        if not isinstance(entry.value, Block):
            raise self.fail(
                f"'{entry.name}' must be a message {{ ... }}, got {shortened_text(entry.value)}", entry.line
            )
        return entry.value

    def without(self, *names: str) -> Block:
        """Return a copy without the named fields."""
        entries = [e for e in self.entries if e.name not in names]
        return Block(self.file, self.line, entries, self.repeated, self.defaults)

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as nested dicts.

        A field that is `repeated` or occurs more than once becomes a list, any other field its value.
        """
        fields: dict[str, list[Any]] = {}
        for e in self.entries:
            fields.setdefault(e.name, []).append(e.value.to_dict() if isinstance(e.value, Block) else e.value)
        return {n: v if len(v) > 1 or n in self.repeated else v[0] for n, v in fields.items()}

    def lines(self, prefix: str = "") -> dict[str, int]:
        """Return the line of the first occurrence of every field, by dotted path ("pooling_param.stride")."""
        line_of: dict[str, int] = {}
        for e in self.entries:
            path = prefix + e.name
            line_of.setdefault(path, e.line)
            if isinstance(e.value, Block):
                for inner, line in e.value.lines(path + ".").items():
                    line_of.setdefault(inner, line)
        return line_of

    def spellings(self, prefix: str = "") -> dict[str, str]:
        """Return the spelling of floats that Python spells differently, by dotted path, separated by commas."""
        texts: dict[str, str] = {}
        spelled = {e.name for e in self.entries if e.text}
        for name in spelled:
            texts[prefix + name] = ",".join(e.text or str(e.value) for e in self.entries if e.name == name)
        for e in self.entries:
            if isinstance(e.value, Block):
                for inner, text in e.value.spellings(f"{prefix}{e.name}.").items():
                    texts.setdefault(inner, text)
        return texts


def shortened_text(value: object) -> str:
    """Return a value as the file spells it, shortened to 60 characters."""
    if isinstance(value, Block):
        return "a message { ... }"
    text = str(value) if isinstance(value, Word) or not isinstance(value, str) else f'"{value}"'
    return shortened(text)
