"""Parse the declarations of a .proto file to a Schema (protobuf.dev/reference/protobuf/proto2-spec).

Messages, enums, fields with defaults, oneofs, maps, nesting and extensions are read. Reserved ranges, options,
services and imports are skipped, so the values of a type that only an import declares are not checked. Some
vendors' documents replace the rest of a message by a line of dots. Such a message may be declared again.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from anylayer.errors import FileError
from anylayer.layer import Enum, Field
from anylayer.layer.fields import MISSING
from anylayer.network import Flag, Word
from anylayer.protobuf.binary import MAX_NESTING
from anylayer.protobuf.schema import MessageClass, Schema, new_message
from anylayer.protobuf.text import parse, read_limited
from anylayer.protobuf.tree import Value

MAX_PROTO_BYTES = 1 << 24
"""Bytes of a .proto file (16 MiB)."""

_TOKEN = re.compile(
    r"(?P<space>[ \t\r\n\f\v]+|//[^\n]*)"
    r"|(?P<comment>/\*)"
    r"|(?P<gap>\.{3,}|…)"
    r"|(?P<word>\.?[A-Za-z_][A-Za-z_0-9]*(?:\.[A-Za-z_][A-Za-z_0-9]*)*)"
    r"|(?P<number>(?:0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)[fF]?)"
    r"|(?P<string>\"(?:[^\"\\\n]|\\[^\n])*\"|'(?:[^'\\\n]|\\[^\n])*')"
    r"|(?P<sign>[{}\[\]()<>=;,:+-])"
)
_LABELS = ("optional", "required", "repeated")


def read_proto(path: Path) -> Schema:
    """Return the schema that a .proto file declares. Raise FileError with file and line."""
    data = read_limited(path, MAX_PROTO_BYTES)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return parse_proto(text, str(path))


def parse_proto(text: str, file: str) -> Schema:
    """Return the schema of a .proto file's text. `file` names it in errors."""
    parser = _ProtoParser(text, file)
    parser.declarations("", 0)
    parser.schema.resolve()
    return parser.schema


class _ProtoParser:
    """A parser of the tokens of one file. `incomplete` are the messages of which the file leaves parts out."""

    def __init__(self, text: str, file: str) -> None:
        self.file, self.schema = file, Schema(file)
        self.tokens = self._tokens(text)
        self.index = 0
        self.incomplete: set[str] = set()

    def _tokens(self, text: str) -> list[tuple[str, str, int]]:
        tokens, position, line = [], 0, 1
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise FileError(f"unexpected character {text[position]!r}", f"{self.file}:{line}")
            end, kind = match.end(), str(match.lastgroup)
            if kind == "comment":
                end = text.find("*/", end) + 2
                if end == 1:
                    raise FileError("the comment opened here is not closed", f"{self.file}:{line}")
            elif kind != "space":
                tokens.append((kind, match.group(), line))
            line += text.count("\n", position, end)
            position = end
        return [*tokens, ("end", "the end of the file", line)]

    @property
    def token(self) -> str:
        return self.tokens[self.index][1]

    @property
    def kind(self) -> str:
        return self.tokens[self.index][0]

    @property
    def line(self) -> int:
        return self.tokens[self.index][2]

    def fail(self, rule: str) -> FileError:
        return FileError(rule, f"{self.file}:{self.line}")

    def take(self, kind: str = "", token: str = "") -> str:
        """Return the current token and advance.

        Raise FileError unless it has the given kind or is the given token.
        """
        expected = token or {"word": "a name", "number": "a number"}.get(kind, kind)
        if (kind and self.kind != kind) or (token and self.token != token):
            raise self.fail(f"expected {expected}, got '{self.token}'")
        if self.kind == "end":
            raise self.fail("the file ends inside a declaration")
        current = self.token
        self.index += 1
        return current

    def accept(self, token: str) -> bool:
        if self.kind != "string" and self.kind != "end" and self.token == token:
            self.index += 1
            return True
        return False

    def integer(self) -> int:
        """Return the current token as an integer, which is decimal, hexadecimal or octal, and advance."""
        line, token = self.line, self.take("number")
        if not re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|0[0-7]{0,22}|[1-9][0-9]{0,19}", token):
            raise FileError(f"expected an integer, got '{token[:40]}'", f"{self.file}:{line}")
        return int(token, 8 if token.startswith("0") and token.isdigit() else 0)

    def skip(self) -> None:
        """Skip a statement, up to and including its ';' or its closing brace."""
        depth = 0
        while True:
            token = self.take()
            depth += (token == "{") - (token == "}")
            if depth <= 0 and token in (";", "}"):
                return

    def declarations(self, scope: str, depth: int) -> None:
        """Parse the top-level declarations of the file."""
        while self.kind != "end":
            word = self.token
            if word == "message":
                self.message(scope, depth)
            elif word == "enum":
                self.enum(scope)
            elif word == "extend":
                self.extend(depth)
            elif word in ("syntax", "package", "import", "option", "service", "edition"):
                self.skip()
            elif self.kind == "gap":
                self.take()
            elif not self.accept(";"):
                raise self.fail(f"expected message, enum or another declaration, got '{word}'")

    def message(self, scope: str, depth: int) -> None:
        self.take(token="message")
        name = self.take("word")
        full = f"{scope}.{name}" if scope else name
        if full in self.schema.messages and full not in self.incomplete:
            raise self.fail(f"message {full} is declared twice")
        message = self.schema.messages.setdefault(full, new_message(full))
        self.take(token="{")
        self.body(message, depth + 1)

    def body(self, message: MessageClass, depth: int) -> None:
        if depth > MAX_NESTING:
            raise self.fail(f"messages are nested deeper than {MAX_NESTING}")
        while not self.accept("}"):
            word = self.token
            following = self.tokens[min(self.index + 1, len(self.tokens) - 1)]
            if word == "message" and following[0] == "word":
                self.message(message.__qualname__, depth)
            elif word == "enum" and following[0] == "word":
                self.enum(message.__qualname__)
            elif word == "extend":
                self.extend(depth)
            elif word == "oneof":
                self.take()
                self.take("word")
                self.take(token="{")
                self.body(message, depth + 1)
            elif word in ("reserved", "extensions", "option"):
                self.skip()
            elif self.kind == "gap":
                self.take()
                self.incomplete.add(message.__qualname__)
            elif not self.accept(";"):
                self.field(message)

    def extend(self, depth: int) -> None:
        self.take(token="extend")
        name = self.take("word").split(".")[-1]
        self.take(token="{")
        self.body(self.schema.messages.setdefault(name, new_message(name)), depth + 1)

    def field(self, message: MessageClass) -> None:
        label = self.take("word") if self.token in _LABELS else "optional"
        kind = self.take("word")
        if kind == "map" and self.accept("<"):
            label, kind = "repeated", self.map_entry(message)
        if kind == "group":
            raise self.fail("groups are not supported")
        name = self.take("word")
        self.take(token="=")
        number = self.integer()
        if name in message.fields:
            raise self.fail(f"message {message.__qualname__} declares field '{name}' twice")
        default = self.options() if self.accept("[") else None
        if default is None and label != "optional":
            default = MISSING
        if kind in ("float", "double") and type(default) is int:
            default = float(default)
        self.take(token=";")
        message.fields[name] = Field(number, kind, default, label == "repeated", name=name)

    def map_entry(self, message: MessageClass) -> str:
        key = self.take("word")
        self.take(token=",")
        value = self.take("word")
        self.take(token=">")
        name = f"{message.__qualname__}.{self.tokens[self.index][1]}_entry"
        self.schema.messages[name] = entry = new_message(name)
        entry.fields.update(key=Field(1, key, None, name="key"), value=Field(2, value, None, name="value"))
        return "." + name

    def options(self) -> Value | None:
        """Parse the options of a field, up to and including ']'. Return the value of `default`, or None."""
        default = None
        depth = 0
        while depth or not self.accept("]"):
            token = self.take()
            depth += (token in "([{") - (token in ")]}")
            if token == "default" and not depth and self.accept("="):
                default = self.value()
        return default

    def value(self) -> Value:
        sign = -1 if self.accept("-") else 1
        kind, token = self.kind, self.take()
        if kind == "number":
            whole = re.fullmatch(r"0[xX][0-9a-fA-F]{1,16}|[0-9]{1,20}", token)
            if token[:2] in ("0x", "0X") and whole is None:
                raise self.fail(f"'{token[:40]}' is not a number")
            return sign * (int(token, 16 if "x" in token.lower() else 10) if whole else float(token.rstrip("fF")))
        if kind == "string":
            return self.string(token)
        if token in ("inf", "nan"):
            return sign * float(token)
        return Flag(token == "true") if token in ("true", "false") else Word(token)

    def string(self, token: str) -> str:
        """Return the text of a quoted token."""
        try:
            return parse(b"a: " + token.encode(), self.file).text("a")
        except FileError as error:
            raise self.fail(error.message) from None

    def enum(self, scope: str) -> None:
        self.take(token="enum")
        name = self.take("word")
        enum = Enum()
        enum.name = f"{scope}.{name}" if scope else name
        self.schema.enums[enum.name] = enum
        self.take(token="{")
        while not self.accept("}"):
            if self.token in ("option", "reserved"):
                self.skip()
                continue
            if self.accept(";"):
                continue
            word = self.take("word")
            self.take(token="=")
            sign = -1 if self.accept("-") else 1
            enum.numbers[word] = sign * self.integer()
            if self.accept("["):
                self.options()
            self.take(token=";")


@cache
def core() -> Schema:
    """Return the schema of Caffe's own messages, without the parameter messages that layer classes declare."""
    return read_proto(Path(__file__).with_name("caffe.proto"))
