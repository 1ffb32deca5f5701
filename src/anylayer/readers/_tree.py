"""Block: the fields between a pair of braces, as a file spells them. Text and binary files both become Blocks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from anylayer.errors import FileError
from anylayer.network import Word


@dataclass(slots=True)
class Entry:
    """One occurrence of a field. `value` is an int, float, str, Word, Flag, Block or (binary) a stored blob."""

    name: str
    value: Any
    line: int


@dataclass(slots=True)
class Block:
    """Fields in file order, each as often as the file writes it. `line` is 0 in a binary file.

    `repeated` names the fields that a schema declares repeated: to_dict gives a list for them always.
    `defaults` are the values that a schema declares for absent fields.
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
        """Where an error stands: "deploy.prototxt:41", without the line for a binary file."""
        line = self.line if line is None else line
        return f"{self.file}:{line}" if line else self.file

    def fail(self, rule: str, line: int | None = None) -> FileError:
        """A FileError at a line of this block."""
        return FileError(rule, self.place(line))

    def add(self, name: str, value: Any, line: int | None = None) -> None:
        """Append one occurrence of a field."""
        self.entries.append(Entry(name, value, self.line if line is None else line))

    def all(self, name: str) -> list[Any]:
        """Every value of a field."""
        return [e.value for e in self.entries if e.name == name]

    def entry(self, name: str) -> Entry | None:
        """The one occurrence of a field, or None; more than one is an error."""
        found = [e for e in self.entries if e.name == name]
        if len(found) > 1:
            raise self.fail(f"'{name}' is given {len(found)} times, once is allowed", found[1].line)
        return found[0] if found else None

    def text(self, name: str, default: str = "") -> str:
        """The one quoted string of a field."""
        entry = self.entry(name)
        return default if entry is None else self.string(entry)

    def texts(self, name: str) -> list[str]:
        """The quoted strings of a repeated field."""
        return [self.string(e) for e in self.entries if e.name == name]

    def string(self, entry: Entry) -> str:
        """An entry's value, which must be a quoted string."""
        if not isinstance(entry.value, str) or isinstance(entry.value, Word):
            raise self.fail(f"'{entry.name}' must be a quoted string, got {shown(entry.value)}", entry.line)
        return str(entry.value)

    def integer(self, name: str, default: int = 0) -> int:
        """The one integer of a field."""
        entry = self.entry(name)
        return default if entry is None else self.as_integer(entry)

    def integers(self, name: str) -> list[int]:
        """The integers of a repeated field."""
        return [self.as_integer(e) for e in self.entries if e.name == name]

    def as_integer(self, entry: Entry) -> int:
        """An entry's value, which must be an integer."""
        if type(entry.value) is not int:
            raise self.fail(f"'{entry.name}' must be an integer, got {shown(entry.value)}", entry.line)
        return entry.value

    def numbers(self, name: str) -> list[float]:
        """The numbers of a repeated field."""
        found = []
        for e in self.entries:
            if e.name == name:
                if type(e.value) not in (int, float):
                    raise self.fail(f"'{name}' must be a number, got {shown(e.value)}", e.line)
                found.append(float(e.value))
        return found

    def blocks(self, name: str) -> list[Block]:
        """The messages of a repeated field."""
        return [self.as_block(e) for e in self.entries if e.name == name]

    def block(self, name: str) -> Block | None:
        """The one message of a field, or None."""
        entry = self.entry(name)
        return None if entry is None else self.as_block(entry)

    def as_block(self, entry: Entry) -> Block:
        """An entry's value, which must be a message."""
        if not isinstance(entry.value, Block):
            raise self.fail(f"'{entry.name}' must be a message {{ ... }}, got {shown(entry.value)}", entry.line)
        return entry.value

    def without(self, *names: str) -> Block:
        """A copy that lacks some fields."""
        kept = [e for e in self.entries if e.name not in names]
        return Block(self.file, self.line, kept, self.repeated, self.defaults)

    def to_dict(self) -> dict[str, Any]:
        """Plain values: a field given once is its value, one given more often (or `repeated`) a list."""
        found: dict[str, list[Any]] = {}
        for e in self.entries:
            found.setdefault(e.name, []).append(e.value.to_dict() if isinstance(e.value, Block) else e.value)
        return {n: v if len(v) > 1 or n in self.repeated else v[0] for n, v in found.items()}

    def lines(self, prefix: str = "") -> dict[str, int]:
        """The line of the first occurrence of every field, by dotted path."""
        found: dict[str, int] = {}
        for e in self.entries:
            path = prefix + e.name
            found.setdefault(path, e.line)
            if isinstance(e.value, Block):
                for inner, line in e.value.lines(path + ".").items():
                    found.setdefault(inner, line)
        return found


def shown(value: Any) -> str:
    """A value as the file spells it, cut where it is long."""
    if isinstance(value, Block):
        return "a message { ... }"
    text = str(value) if isinstance(value, Word) or not isinstance(value, str) else f'"{value}"'
    return text if len(text) <= 60 else text[:57] + "..."
