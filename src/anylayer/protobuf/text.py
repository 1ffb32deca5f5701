"""Prototxt: protobuf's text format, in both directions (protobuf.dev/reference/protobuf/textformat-spec).

It is parsed without a schema. A value is an int (decimal, hexadecimal or octal in the file), a float (also `inf`
and `nan`), a str (quoted in the file), a Flag (`true` or `false`), a Word (any other bare word) or a Block. Time
is linear in the length of the text.
"""

from __future__ import annotations

import codecs
import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from anylayer.errors import FileError
from anylayer.layer import Enum, Field
from anylayer.layer.fields import NUMERIC, TRUE_WORDS
from anylayer.network import Flag, Word
from anylayer.protobuf.binary import MAX_NESTING, Fields, as_list, fields_of, in_order
from anylayer.protobuf.tree import Block, Value, shortened_text

MAX_TEXT_BYTES = 1 << 26
"""Bytes of a file in protobuf's text format (64 MiB)."""
MAX_NUMBER_LENGTH = 400
"""Characters of one number."""

_TOKEN = re.compile(
    r"(?P<space>(?:[ \t\r\n\f\v]|\#[^\n]*)+)"
    r"|(?P<word>[A-Za-z_][A-Za-z_0-9]*)"
    r"|(?P<number>\.?[0-9](?:[eE][+-](?=[0-9])|[A-Za-z_0-9.]){0,400})"
    r"|(?P<quote>[\"'])"
    r"|(?P<sign>[{}<>\[\]:,;/.-])"
)
_SPACE = re.compile(r"(?:[ \t\r\n\f\v]+|#[^\n]*)")
_DECIMAL = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?")
_INTEGER = re.compile(r"0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*")
_BODY = {'"': re.compile(r'(?:[^"\\\n]++|\\[^\n])*+'), "'": re.compile(r"(?:[^'\\\n]++|\\[^\n])*+")}
_RARE = re.compile(r"\\(?:[^abfnrtv\\'\"0-7x]|x(?![0-9a-fA-F]{2})|[4-7][0-7][0-7])")
"""Escapes that Python's decoder does not know, or an escaped backslash followed by what looks like one of them."""
_ESCAPE = re.compile(r"([abfnrtv?\\'\"])|([0-7]{1,3})|[xX]([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})")
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_SPECIALS = {"inf": float("inf"), "infinity": float("inf"), "nan": float("nan")}
_CLOSING = {"{": "}", "<": ">"}


def read_text(path: Path) -> Block:
    """Return the fields of a prototxt.

    Raise FileError with file and line for what is not protobuf's text format.
    """
    return parse(read_limited(path, MAX_TEXT_BYTES), str(path))


def read_limited(path: Path, limit: int) -> bytes:
    """Return the bytes of a text file. Raise FileError if it has more than `limit` bytes."""
    size = path.stat().st_size
    if size > limit:
        raise FileError(f"the file has {size >> 20} MiB; the limit is {limit >> 20} MiB", str(path))
    return path.read_bytes()


def parse(data: bytes, file: str, *, raw: bool = False) -> Block:
    """Return the fields of a prototxt's bytes. `file` names it in errors, which are FileError with a line.

    With `raw` a quoted string may hold bytes that are not UTF-8. They become lone surrogates (Python's
    "surrogateescape"). Without `raw` they are refused.
    """
    text = data.removeprefix(b"\xef\xbb\xbf").decode("utf-8", "surrogateescape")
    parser = _TextParser(text, file, raw)
    root = Block(file, 1)
    parser.fields(root, "", 0)
    return root


class _TextParser:
    """A parser that reads the text in one pass.

    `kind` and `token` are the current token: kind "word", "number", "quote" or "sign", or "end" after the last
    one. `spelled` is the text of the last number.
    """

    def __init__(self, text: str, file: str, raw: bool = False) -> None:
        self.source, self.file, self.raw = text, file, raw
        self.position, self.line = 0, 1
        self.kind, self.token, self.token_line = "", "", 1
        self.spelled = ""
        self.next()

    def fail(self, rule: str, line: int | None = None) -> FileError:
        return FileError(rule, f"{self.file}:{line or self.token_line}")

    def found(self) -> str:
        """Return the current token as an error message shows it."""
        return "the end of the file" if self.kind == "end" else shortened_text(Word(f"'{self.token}'"))

    def next(self) -> None:
        """Advance to the next token. For a quoted string the token is its opening quote."""
        text = self.source
        while True:
            space = _SPACE.match(text, self.position)
            if space is None:
                break
            self.line += text.count("\n", self.position, space.end())
            self.position = space.end()
        self.token_line = self.line
        if self.position == len(text):
            self.kind, self.token = "end", ""
            return
        match = _TOKEN.match(text, self.position)
        if match is None:
            raise self._error_of_char(text[self.position])
        self.kind, self.token = str(match.lastgroup), match.group()
        self.position = match.end()

    def _error_of_char(self, char: str) -> FileError:
        if "\udc80" <= char <= "\udcff":
            return self.fail(f"byte 0x{ord(char) - 0xDC00:02x} is not UTF-8. Save the file as UTF-8")
        named = f"'{char}'" if char.isprintable() and char.isascii() else f"U+{ord(char):04X}"
        return self.fail(f"unexpected character {named}")

    def fields(self, block: Block, closing: str, depth: int) -> None:
        """Add the fields up to the token `closing` to a block; with "" up to the end of the file."""
        if depth > MAX_NESTING:
            raise self.fail(f"messages are nested deeper than {MAX_NESTING}")
        while True:
            if self.kind == "end" and not closing:
                return
            if closing and self.kind == "sign" and self.token == closing:
                return
            if self.kind == "end":
                raise self.fail(f"the message opened in line {block.line} is not closed: '{closing}' is missing")
            self.field(block, depth)
            if self.kind == "sign" and self.token in ",;":
                self.next()

    def field(self, block: Block, depth: int) -> None:
        line = self.token_line
        name = self.name()
        colon = self.kind == "sign" and self.token == ":"
        if colon:
            self.next()
        if self.kind == "sign" and self.token == "[":
            self.list(block, name, colon, depth)
        else:
            self.add(block, name, self.value(name, colon, depth), line)

    def add(self, block: Block, name: str, value: Value, line: int) -> None:
        """Add a value to a block, with its text if it is a float that Python spells differently."""
        text = self.spelled if type(value) is float and self.spelled and self.spelled != str(value) else ""
        block.add(name, value, line, text)

    def name(self) -> str:
        if self.kind == "word":
            name = self.token
            self.next()
            return name
        if self.kind == "sign" and self.token == "[":
            return self.bracketed_name()
        hint = ". A comment starts with '#'" if self.token == "/" else ""
        raise self.fail(f"expected the name of a field, got {self.found()}{hint}")

    def bracketed_name(self) -> str:
        """Return the name of an extension, `[a.b]`, or of an Any message, `[domain/a.b]`."""
        parts = ["["]
        self.next()
        while not (self.kind == "sign" and self.token == "]"):
            if self.kind not in ("word", "number") and self.token not in ("/", ".", "-"):
                raise self.fail(f"expected ']' after the extension's name, got {self.found()}")
            parts.append(self.token)
            self.next()
        self.next()
        if len(parts) == 1:
            raise self.fail("expected an extension's name between '[' and ']'")
        return "".join(parts) + "]"

    def list(self, block: Block, name: str, colon: bool, depth: int) -> None:
        self.next()
        if self.kind == "sign" and self.token == "]":
            self.next()
            return
        while True:
            line = self.token_line
            self.add(block, name, self.value(name, colon, depth), line)
            if self.kind == "sign" and self.token == "]":
                self.next()
                return
            if not (self.kind == "sign" and self.token == ","):
                raise self.fail(f"expected ',' or ']' in the list of '{name}', got {self.found()}")
            self.next()

    def value(self, name: str, colon: bool, depth: int) -> Value:
        if self.kind == "sign" and self.token in _CLOSING:
            closing = _CLOSING[self.token]
            block = Block(self.file, self.token_line)
            self.next()
            self.fields(block, closing, depth + 1)
            self.next()
            return block
        if not colon:
            raise self.fail(f"expected ':' or '{{' after '{name}', got {self.found()}")
        if self.kind == "quote":
            return self.strings()
        if self.kind == "number":
            return self.number("")
        if self.kind == "word":
            return self.word()
        if self.kind == "sign" and self.token == "-":
            self.next()
            return self.negative()
        raise self.fail(f"expected a value after '{name}:', got {self.found()}")

    def word(self) -> Value:
        word, self.spelled = self.token, ""
        self.next()
        if word in ("true", "false", "True", "False"):
            return Flag(word.lower() == "true")
        return _SPECIALS.get(word, Word(word))

    def negative(self) -> Value:
        if self.kind == "number":
            return self.number("-")
        if self.kind == "word" and self.token.lower() in _SPECIALS:
            special, self.spelled = _SPECIALS[self.token.lower()], ""
            self.next()
            return -special
        raise self.fail(f"expected a number after '-', got {self.found()}")

    def number(self, sign: str) -> Value:
        token, line = self.token, self.token_line
        self.next()
        if len(token) > MAX_NUMBER_LENGTH:
            raise self.fail(f"a number has more than {MAX_NUMBER_LENGTH} characters", line)
        if _INTEGER.fullmatch(token):
            octal = token.startswith("0") and token.isdigit()
            value = int(sign + token, 8 if octal else 16 if token[:2] in ("0x", "0X") else 10)
            self.spelled = ""
            return value if -(2**63) <= value < 2**64 else _float(value)
        if _DECIMAL.fullmatch(token) and not (token.isdigit() and token.startswith("0")):
            self.spelled = sign + token.rstrip("fF")
            return float(self.spelled)
        raise self.fail(f"'{shortened_text(Word(token))}' is not a number", line)

    def strings(self) -> str:
        """Return adjacent quoted strings as one string."""
        parts = []
        while self.kind == "quote":
            parts.append(self.string())
            self.next()
        try:
            text = b"".join(parts).decode("utf-8", "surrogateescape" if self.raw else "strict")
        except UnicodeDecodeError as error:
            raise self.fail(f"a string has byte 0x{error.object[error.start]:02x}, which is not UTF-8") from None
        return text

    def string(self) -> bytes:
        """Return the bytes of one quoted string.

        Move the position from its opening quote to after its closing one.
        """
        begin = self.position
        body = _BODY[self.token].match(self.source, begin)
        stop = body.end() if body else begin
        if self.source[stop : stop + 1] != self.token:
            raise self.fail("a string is not closed on its line")
        self.position = stop + 1
        text = self.source[begin:stop]
        if "\\" in text and _RARE.search(text) is None:
            return codecs.escape_decode(text.encode("utf-8", "surrogateescape"))[0]
        return self.unescape(text)

    def unescape(self, text: str) -> bytes:
        """Return a string's bytes. Decode all of protobuf's escapes, one by one."""
        parts, position = [], 0
        while (backslash := text.find("\\", position)) >= 0:
            parts.append(text[position:backslash].encode("utf-8", "surrogateescape"))
            escape = _ESCAPE.match(text, backslash + 1)
            if escape is None:
                raise self.fail(f"'\\{text[backslash + 1 : backslash + 2]}' is not an escape of a string")
            parts.append(self.escape_bytes(escape))
            position = escape.end()
        parts.append(text[position:].encode("utf-8", "surrogateescape"))
        return b"".join(parts)

    def escape_bytes(self, escape: re.Match[str]) -> bytes:
        simple, octal, hexa, short, long = escape.groups()
        if simple:
            return _CONTROLS.get(simple, simple).encode()
        if octal:
            return bytes([int(octal, 8) & 0xFF])
        if hexa:
            return bytes([int(hexa, 16)])
        code = int(short or long, 16)
        if code > 0x10FFFF or 0xD800 <= code < 0xE000:
            raise self.fail(f"'\\{escape.group()}' is not a character")
        return chr(code).encode()


def _float(value: int) -> float:
    """Return the float nearest to an integer, which is infinity beyond the largest float."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


# ---- text from values, as protobuf's Python package prints it

_ESCAPES = {'"': '\\"', "'": "\\'", "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def message_lines(values: Mapping[str, Any], fields: Fields) -> Iterator[str]:
    """Yield the lines of a message's fields, without the message's own braces.

    Fields are in the order of their numbers, undeclared ones last.
    """
    for name in in_order(values, fields):
        declared = fields.get(name)
        for value in as_list(values[name]):
            if isinstance(value, Mapping):
                yield f"{name} {{"
                yield from (f"  {line}" for line in message_lines(value, fields_of(declared)))
                yield "}"
            else:
                yield f"{name}: {scalar_text(value, declared)}"


def is_truth(value: object) -> bool:
    """Return whether a value is `true` or `false`, not a number or a word."""
    return isinstance(value, (Flag, bool, np.bool_))


def scalar_text(value: Any, declared: Field | None) -> str:
    """Return a scalar value as text for a prototxt."""
    kind = declared.kind if declared is not None else "any"
    if isinstance(kind, Enum):
        return next((name for name, number in kind.numbers.items() if number == value), str(value))
    if kind == "bool":
        return "true" if value in TRUE_WORDS else "false"
    if kind in ("string", "bytes"):
        return quoted(str(value))
    if is_truth(value):
        return str(int(value)) if kind in NUMERIC else "true" if value else "false"
    if isinstance(value, Word):
        return str(value)
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, (int, np.integer)):
        return str(int(value))
    if kind == "double" or (kind == "any" and isinstance(value, float)):
        return _special(value) or repr(float(value))
    return float_text(value)


def float_text(value: float) -> str:
    """Return the shortest decimal that gives the same float32."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    special = _special(single)
    if special:
        return special
    for precision in range(6, 10):
        decimal = float(f"{single:.{precision}g}")
        if np.float32(decimal) == single:
            return repr(decimal)
    return repr(float(single))


def _special(value: Any) -> str:
    if math.isnan(value):
        return "nan"
    return ("-inf" if value < 0 else "inf") if math.isinf(value) else ""


def quoted(text: str) -> str:
    """Return a string in quotes, with escapes."""
    escaped = (_ESCAPES.get(c) or (c if c >= " " and c != "\x7f" else f"\\{ord(c):03o}") for c in text)
    return f'"{"".join(escaped)}"'
