"""Prototxt: protobuf's text format as Python prints it (protobuf.dev/reference/protobuf/textformat-spec).

Fields stand in the order of their numbers, those that nothing declares behind them; enums by name; a float as the
shortest text that is the same float32, always with a point or an exponent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from anylayer.layer import Enum, Field, Message
from anylayer.network import Word
from anylayer.writers.caffe.base import NET
from anylayer.writers.caffe.inference import Fields, is_truth
from anylayer.writers.caffe.layers import CaffeNet

INTEGERS = frozenset(f"{kind}{bits}" for kind in ("int", "uint", "sint", "fixed", "sfixed") for bits in (32, 64))
NUMERIC = INTEGERS | {"float", "double"}
"""Protobuf's types that are numbers."""

_ESCAPES = {'"': '\\"', "'": "\\'", "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def prototxt(net: CaffeNet) -> str:
    """The network as a prototxt; without its weights."""
    _, fields = net.fields()
    lines = [*message_lines(net.values(), NET)]
    for layer, declared in zip(net.layers, fields):
        lines += ["layer {", *(f"  {line}" for line in message_lines(layer.values(), declared)), "}"]
    return "".join(f"{line}\n" for line in lines)


def message_lines(values: Mapping[str, Any], fields: Fields) -> Iterator[str]:
    """The lines of a message's fields."""
    for name in in_order(values, fields):
        declared = fields.get(name)
        value = values[name]
        for one in value if isinstance(value, (list, tuple)) else [value]:
            if isinstance(one, Mapping):
                inner = fields_of(declared)
                yield f"{name} {{"
                yield from (f"  {line}" for line in message_lines(one, inner))
                yield "}"
            else:
                yield f"{name}: {scalar_text(one, declared)}"


def in_order(values: Mapping[str, Any], fields: Fields) -> list[str]:
    """The names of a message's values by their numbers."""
    return sorted(values, key=lambda n: fields[n].number if n in fields else 1 << 30)


def fields_of(declared: Field | None) -> Fields:
    """The fields of the message that a field is."""
    kind = declared.kind if declared is not None else None
    return kind.fields if isinstance(kind, type) and issubclass(kind, Message) else {}


def scalar_text(value: Any, declared: Field | None) -> str:
    """A value as a prototxt spells it."""
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
    """The shortest decimal that is the same float32."""
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
    """A string between quotes."""
    return (
        '"'
        + "".join(_ESCAPES.get(c) or (c if c >= " " and c != "\x7f" else f"\\{ord(c):03o}") for c in text)
        + '"'
    )


def listed(value: Any) -> Sequence[Any]:
    """A repeated field's values."""
    return value if isinstance(value, (list, tuple)) else [value]
