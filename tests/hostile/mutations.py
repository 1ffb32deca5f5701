"""Files that were right once: numbers made extreme, words exchanged, bytes turned over, the end cut off."""

from __future__ import annotations

import re
from random import Random

_NUMBERS = (
    "0", "-1", "1", "2", "3", "7", "100000", "2147483647", "-2147483648", "4294967295", "9223372036854775807",
    "18446744073709551615", "1e39", "-1e39", "nan", "inf", "-inf", "0.5", "1e-40", "00", "0x10", "''", "{ }",
)  # fmt: skip
_TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|-?[0-9][\w.+-]*|[{}<>:,;\[\]]')
_NUMBER = re.compile(r"(?<=:)\s*-?[0-9][\w.+-]*")


def text(source: str, random: Random) -> str:
    """A prototxt with one to three things changed."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        source = random.choice(_TEXT)(source, random)
    return source


def _number(source: str, random: Random) -> str:
    found = list(_NUMBER.finditer(source))
    if not found:
        return source
    m = random.choice(found)
    return f"{source[: m.start()]} {random.choice(_NUMBERS)}{source[m.end() :]}"


def _exchange(source: str, random: Random) -> str:
    found = list(_TOKEN.finditer(source))
    if len(found) < 2:
        return source
    a, b = sorted(random.sample(found, 2), key=lambda m: m.start())
    return source[: a.start()] + b[0] + source[a.end() : b.start()] + a[0] + source[b.end() :]


def _drop(source: str, random: Random) -> str:
    found = list(_TOKEN.finditer(source))
    if not found:
        return source
    m = random.choice(found)
    return source[: m.start()] + source[m.end() :]


def _repeat(source: str, random: Random) -> str:
    lines = source.splitlines(keepends=True)
    at = random.randrange(len(lines) + 1)
    return "".join([*lines[:at], random.choice(lines or [""]), *lines[at:]])


def _without_line(source: str, random: Random) -> str:
    lines = source.splitlines(keepends=True)
    if lines:
        del lines[random.randrange(len(lines))]
    return "".join(lines)


def _cut(source: str, random: Random) -> str:
    return source[: random.randrange(len(source) + 1)]


def _letter(source: str, random: Random) -> str:
    at = random.randrange(len(source) + 1)
    return (
        source[:at] + chr(random.choice((0, 9, 10, 34, 35, 92, 123, 125, 0x7F, 0xE9, 0x20AC))) + source[at + 1 :]
    )


_TEXT = (_number, _number, _number, _number, _exchange, _drop, _repeat, _without_line, _cut, _letter)


def data(source: bytes, random: Random) -> bytes:
    """A binary file with one to three things changed; more often near its start, where headers are."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        if source:
            source = random.choice(_DATA)(source, random)
    return source


def _place(source: bytes, random: Random) -> int:
    return random.randrange(random.choice((len(source), min(len(source), 200))))


def _bit(source: bytes, random: Random) -> bytes:
    at = _place(source, random)
    return source[:at] + bytes([source[at] ^ 1 << random.randrange(8)]) + source[at + 1 :]


def _byte(source: bytes, random: Random) -> bytes:
    at = _place(source, random)
    return source[:at] + bytes([random.choice((0, 1, 0x7F, 0x80, 0xFF))]) + source[at + 1 :]


def _long(source: bytes, random: Random) -> bytes:
    at = _place(source, random)
    big = (b"\xff" * 9 + b"\x01", b"\xff\xff\xff\xff\x07", b"\x80" * 12, b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f")
    return source[:at] + random.choice(big) + source[at + 1 :]


def _without(source: bytes, random: Random) -> bytes:
    at = _place(source, random)
    return source[:at] + source[at + random.randrange(1, 9) :]


def _again(source: bytes, random: Random) -> bytes:
    at, length = _place(source, random), random.randrange(1, 200)
    return source[:at] + source[at : at + length] * 2 + source[at + length :]


def _end(source: bytes, random: Random) -> bytes:
    return source[: _place(source, random)]


_DATA = (_bit, _bit, _byte, _byte, _long, _without, _again, _end)
