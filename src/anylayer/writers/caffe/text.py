"""Write a prototxt: protobuf's text format as protobuf's Python package prints it.

Fields are in the order of their numbers, undeclared ones last. Enums are written by name. A float is the shortest
decimal that gives the same float32, always with a point or an exponent.
Source: protobuf.dev/reference/protobuf/textformat-spec.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from anylayer.layer import Enum, Field, Message
from anylayer.network import Word
from anylayer.writers.caffe.field_types import Fields, as_list, is_truth
from anylayer.writers.caffe.layers import CaffeNet
from anylayer.writers.caffe.messages import NET_FIELDS

INTEGERS = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "sint", "fixed", "sfixed") for bits in (32, 64))
NUMERIC = INTEGERS | {"float", "double"}
"""The number types of protobuf."""

_ESCAPES = {'"': '\\"', "'": "\\'", "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def prototxt(net: CaffeNet) -> str:
    """Return the network as a prototxt, without its weights."""
    _, fields = net.fields()
    lines = [*message_lines(net.values(), NET_FIELDS)]
    for layer, declared in zip(net.layers, fields):
        lines += ["layer {", *(f"  {line}" for line in message_lines(layer.values(), declared)), "}"]
    return "".join(f"{line}\n" for line in lines)


def message_lines(values: Mapping[str, Any], fields: Fields) -> Iterator[str]:
    """Yield the lines of a message's fields, without the message's own braces."""
    for name in in_order(values, fields):
        declared = fields.get(name)
        value = values[name]
        for one in as_list(value):
            if isinstance(one, Mapping):
                inner = fields_of(declared)
                yield f"{name} {{"
                yield from (f"  {line}" for line in message_lines(one, inner))
                yield "}"
            else:
                yield f"{name}: {scalar_text(one, declared)}"


def in_order(values: Mapping[str, Any], fields: Fields) -> list[str]:
    """Return the names of a message's values in the order of their field numbers, undeclared ones last."""
    return sorted(values, key=lambda n: fields[n].number if n in fields else 1 << 30)


def fields_of(declared: Field | None) -> Fields:
    """Return the fields of a field's message type, or an empty mapping if its type is not a message."""
    kind = declared.kind if declared is not None else None
    return kind.fields if isinstance(kind, type) and issubclass(kind, Message) else {}


def scalar_text(value: Any, declared: Field | None) -> str:
    """Return a scalar value as text for a prototxt."""
    kind = declared.kind if declared is not None else "any"
    if isinstance(kind, Enum):
        return _enum_text(kind, value)
    if kind == "bool":
        return "true" if value in (1, "t", "True", "true") else "false"
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


def _enum_text(kind: Enum, value: Any) -> str:
    if isinstance(value, str):
        return str(value)
    return next((name for name, number in kind.numbers.items() if number == value), str(value))


def float_text(value: float) -> str:
    """Return the shortest decimal that gives the same float32."""
    with np.errstate(over="ignore"):
        single = np.float32(value)
    special = _special(single)
    if special:
        return special
    for precision in range(6, 10):
        found = float(f"{single:.{precision}g}")
        if np.float32(found) == single:
            return repr(found)
    return repr(float(single))


def _special(value: Any) -> str:
    if math.isnan(value):
        return "nan"
    return ("-inf" if value < 0 else "inf") if math.isinf(value) else ""


def quoted(text: str) -> str:
    """Return a string in quotes, with escapes."""
    return (
        '"'
        + "".join(_ESCAPES.get(c) or (c if c >= " " and c != "\x7f" else f"\\{ord(c):03o}") for c in text)
        + '"'
    )
