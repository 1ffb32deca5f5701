"""Mutate correct files: make numbers extreme, exchange words, flip bits, cut off the end."""

from __future__ import annotations

import copy
import io
import json
import re
import zipfile
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from onnx import ModelProto

from tests.readers.files import varint

_NUMBERS = (
    "0", "-1", "1", "2", "3", "7", "100000", "2147483647", "-2147483648", "4294967295", "9223372036854775807",
    "18446744073709551615", "1e39", "-1e39", "nan", "inf", "-inf", "0.5", "1e-40", "00", "0x10", "''", "{ }",
)  # fmt: skip
_TOKEN = re.compile(r'"[^"\n]*"|[A-Za-z_]\w*|-?[0-9][\w.+-]*|[{}<>:,;\[\]]')
_NUMBER = re.compile(r"(?<=:)\s*-?[0-9][\w.+-]*")


def text(source: str, random: Random) -> str:
    """Return a prototxt with one to three changes."""
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
    """Return a binary file with one to three changes, more often near its beginning, where headers are."""
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


# ---------------------------------------------------------- JSON and archives

_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 3, 100000, 2**31, 2**63, -(2**63), 1e39, -1e39, 0.5, float("nan"), float("inf"),
    "", "a", "../x", "float64", "channels_first", [], [0], [1, 2, 3], [None, None], {}, {"a": 1},
    [[["op", 0, 0, {}]]], {"class_name": "__keras_tensor__", "config": {}},
)  # fmt: skip


def json_text(source: bytes, random: Random) -> bytes:
    """Return a JSON text with one to three values changed, dropped or exchanged; sometimes change its letters."""
    if random.random() < 0.15:
        return text(source.decode(), random).encode("utf-8", "surrogatepass")
    found = json.loads(source)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _change(found, random)
    return json.dumps(found).encode()


def _change(root: Any, random: Random) -> None:
    places = list(_places(root))
    if not places:
        return
    holder, key = random.choice(places)
    kind = random.randrange(10)
    if kind < 6:
        holder[key] = copy.deepcopy(random.choice(_VALUES))  # a later change must not change the list
    elif kind == 6:
        del holder[key]
    elif kind == 7 and isinstance(holder, list):
        holder.insert(key, holder[key])
    else:
        other, place = random.choice(places)
        held = json.dumps(other[place])
        if len(held) < 10000:
            holder[key] = json.loads(held)


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every (list or dict, index or key) in a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, one in list(items):
        yield value, key
        yield from _places(one)


def archive(source: bytes, random: Random) -> bytes:
    """Return a zip archive with one member changed and a correct checksum; sometimes change the archive's own
    bytes.
    """
    if random.random() < 0.2:
        return data(source, random)
    with zipfile.ZipFile(io.BytesIO(source)) as read:
        parts = {name: read.read(name) for name in read.namelist()}
    name = random.choice(sorted(parts))
    parts[name] = (json_text if name.endswith(".json") else data)(parts[name], random)
    packed = io.BytesIO()
    method = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA))
    with zipfile.ZipFile(packed, "w", method) as write:
        for key, held in parts.items():
            write.writestr(zipfile.ZipInfo(key), held, method)
    return packed.getvalue()


# ------------------------------------------------------------- protobuf, XML

Field = list[Any]
"""A field of a message: its number, its wire type, and an int, bytes, or a list of Fields."""


def protobuf(source: bytes, random: Random) -> bytes:
    """Return a message with one to three fields changed and correct lengths; sometimes change its bytes."""
    fields = _parsed(source)
    if fields is None or random.random() < 0.15:
        return data(source, random)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        _change_field(fields, random)
    return _packed(fields)


def _parsed(source: bytes, depth: int = 0) -> list[Field] | None:
    """Return the fields of a message, or None for bytes that are not a message."""
    fields: list[Field] = []
    position = 0
    while position < len(source):
        tag, position = _varint(source, position)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1000 or wire not in (0, 1, 2, 5) or position > len(source):
            return None
        if wire == 0:
            value, position = _varint(source, position)
            fields.append([number, wire, value])
        else:
            size, position = _varint(source, position) if wire == 2 else (8 if wire == 1 else 4, position)
            held, position = source[position : position + size], position + size
            if position > len(source):
                return None
            inner = _parsed(held, depth + 1) if wire == 2 and len(held) > 1 and depth < 12 else None
            fields.append([number, wire, inner or held])
    return fields if position == len(source) else None


def _varint(source: bytes, position: int) -> tuple[int, int]:
    value = 0
    for i, byte in enumerate(source[position : position + 10]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, position + i + 1
    return 0, len(source) + 1


def _packed(fields: list[Field]) -> bytes:
    parts = []
    for number, wire, value in fields:
        parts.append(varint(number << 3 | wire))
        held = _packed(value) if isinstance(value, list) else value
        if wire == 0:
            parts.append(varint(held))
        else:
            parts += [varint(len(held)), held] if wire == 2 else [held]
    return b"".join(parts)


_INTEGERS = (0, 1, 2, 3, 4, 7, 16, 100, 100000, 2**31 - 1, 2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**64 - 2)
_BYTES = (b"", b"a", b"\xff\xfe", b"../x", b"\0" * 40, b"x" * 300, b"float", b"\x00\x00\xc0\x7f")


def _change_field(root: list[Field], random: Random) -> None:
    holders = list(_holders(root))
    holder = random.choice(holders)
    if not holder:
        return
    i, (other, j) = random.randrange(len(holder)), _any_field(holders, random)
    number, wire, value = holder[i]
    kind = random.randrange(10)
    if kind < 5 and not isinstance(value, list):
        if wire == 0:
            holder[i] = [number, wire, random.choice((*_INTEGERS, value + 1, value - 1))]
        elif wire == 2 and other is not None and isinstance(other[j][2], bytes) and random.random() < 0.6:
            holder[i] = [number, wire, other[j][2]]
        else:
            holder[i] = [number, wire, random.choice(_BYTES) if wire == 2 else data(value, random)[: len(value)]]
            if wire != 2:
                holder[i][2] = holder[i][2].ljust(len(value), b"\xff")
    elif kind == 5:
        del holder[i]
    elif kind == 6:
        holder.insert(i, copy.deepcopy(holder[i]))
    elif kind == 7:
        holder[i] = [random.choice((number + 1, max(number - 1, 1), random.randrange(1, 30))), wire, value]
    elif other is not None:
        holder[i], other[j] = copy.deepcopy(other[j]), copy.deepcopy(holder[i])


def _holders(fields: list[Field]) -> Iterator[list[Field]]:
    """Return every message in a message, itself first."""
    yield fields
    for one in fields:
        if isinstance(one[2], list):
            yield from _holders(one[2])


def _any_field(holders: list[list[Field]], random: Random) -> tuple[list[Field] | None, int]:
    holder = random.choice(holders)
    return (holder, random.randrange(len(holder))) if holder else (None, 0)


_ATTRIBUTE = re.compile(r'(?<=")[^"<>\n]*(?=")')


def xml(source: str, random: Random) -> str:
    """Return an XML text with one to three attributes or other parts changed."""
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        found = list(_ATTRIBUTE.finditer(source))
        if random.random() < 0.3 or not found:
            source = random.choice(_TEXT[4:])(source, random)
            continue
        m = random.choice(found)
        parts = m[0].split(",")
        parts[random.randrange(len(parts))] = random.choice((*_NUMBERS[:-2], "", random.choice(found)[0]))
        source = source[: m.start()] + ",".join(parts) + source[m.end() :]
    return source


_MESSAGES = ("onnx", "pb", "caffemodel", "meta")


def file(name: str, source: bytes, random: Random) -> bytes:
    """Return a mutated file, changed in a way that fits its suffix."""
    suffix = name.rpartition(".")[2]
    if suffix in ("prototxt", "pbtxt", "cfg"):
        return text(source.decode(), random).encode("utf-8", "surrogatepass")
    if suffix == "xml":
        return xml(source.decode(), random).encode("utf-8", "surrogatepass")
    if suffix in _MESSAGES:
        return protobuf(source, random)
    if suffix == "json":
        return json_text(source, random)
    return archive(source, random) if suffix == "keras" else data(source, random)


# ------------------------------------------------------------- the same meaning in another order

_UNORDERED = frozenset(
    (
        *("NodeProto.attribute", "ModelProto.opset_import", "ModelProto.functions", "GraphProto.initializer"),
        *("GraphProto.value_info", "ModelProto.metadata_props"),
    )
)
"""Repeated fields of ONNX's messages whose order has no meaning."""
_FLAT_MESSAGE = re.compile(r"(\w+_param\s*)\{([^{}]*)\}")
_FIELD = re.compile(r'\w+\s*:\s*(?:"[^"\n]*"|[^\s"]+)')
_TAG = re.compile(r'<(\w+)((?:\s+[\w-]+="[^"]*")+)')


def reordered(name: str, source: bytes, random: Random) -> bytes:
    """Return a file of the same meaning, with attributes and fields in another order, if its format has any."""
    suffix = name.rpartition(".")[2]
    if suffix == "onnx":
        return _reordered_message(source, ModelProto.DESCRIPTOR, random)
    if suffix == "json":
        return json.dumps(_reordered_json(json.loads(source), random)).encode()
    if suffix == "xml":
        return _TAG.sub(
            lambda m: f"<{m[1]} {' '.join(_any_order(_pairs(m[2]), random))}", source.decode()
        ).encode()
    if suffix == "prototxt":
        return _FLAT_MESSAGE.sub(
            lambda m: f"{m[1]}{{ {_reordered_fields(m[2], random)} }}", source.decode()
        ).encode()
    return source


def _pairs(attributes: str) -> list[str]:
    return re.findall(r'[\w-]+="[^"]*"', attributes)


def _any_order(items: Sequence[Any], random: Random) -> list[Any]:
    return random.sample(list(items), len(items))


def _kept_within(items: Sequence[tuple[Any, Any]], random: Random) -> list[Any]:
    """Return the values of (key, value) in any order, but those of the same key in the given order."""
    left: dict[Any, list[Any]] = {}
    for key, value in reversed(items):
        left.setdefault(key, []).append(value)
    return [left[key].pop() for key, _ in _any_order(items, random)]


def _reordered_fields(text: str, random: Random) -> str:
    fields = _FIELD.findall(text)
    if "#" in text or _FIELD.sub("", text).strip():
        return text
    return " ".join(_kept_within([(one.partition(":")[0].strip(), one) for one in fields], random))


def _reordered_json(value: Any, random: Random) -> Any:
    if isinstance(value, dict):
        return {key: _reordered_json(value[key], random) for key in _any_order(list(value), random)}
    return [_reordered_json(one, random) for one in value] if isinstance(value, list) else value


def _reordered_message(source: bytes, descriptor: Any, random: Random) -> bytes:
    moved: list[tuple[Any, bytes]] = []
    for one in fields(source):
        declared = descriptor.fields_by_number.get(one.number)
        if one.wire == 2 and declared is not None and declared.message_type is not None:
            held = _reordered_message(one.held, declared.message_type, random)
            free = f"{descriptor.name}.{declared.name}" in _UNORDERED
            key = (one.number, len(moved)) if free else one.number
            moved.append((key, varint(one.number << 3 | 2) + varint(len(held)) + held))
        else:
            moved.append((one.number, one.whole))
    return b"".join(_kept_within(moved, random))


class Stored(NamedTuple):
    """A field of a correct message: its number, its wire type, its value and all its bytes."""

    number: int
    wire: int
    held: bytes
    whole: bytes


def fields(source: bytes) -> Iterator[Stored]:
    """Yield the fields of a correct message. Messages in it are bytes."""
    position = 0
    while position < len(source):
        start = position
        tag, position = _varint(source, position)
        number, wire = tag >> 3, tag & 7
        size = 0
        if wire == 2:
            size, position = _varint(source, position)
        end = _varint(source, position)[1] if wire == 0 else position + {1: 8, 2: size, 5: 4}[wire]
        yield Stored(number, wire, source[position:end], source[start:end])
        position = end
