"""Values that a file stores as text: numbers, words and lists of numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Union

from anylayer.network import Flag

_INTEGER = re.compile(r"[+-]?\d{1,18}")
_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS = {
    "true": Flag(True), "false": Flag(False), "True": Flag(True), "False": Flag(False),
    "inf": math.inf, "-inf": -math.inf, "nan": math.nan, "-nan": math.nan,
}  # fmt: skip


AttributeValue = Union[int, float, str, "list[int | float]"]
"""The value of an attribute. A Flag is an int."""


def parse_value(text: str) -> AttributeValue:
    """Return the value of an attribute: an int, a float, a Flag, a list of these if separated by commas, or the
    text.

    >>> [parse_value(text) for text in ("2", "2, 1", "1e-05", "same_upper", "true", "ij,jk->ik")]
    [2, [2, 1], 1e-05, 'same_upper', true, 'ij,jk->ik']
    """
    if "," not in text:
        value = _scalar(text.strip())
        return text if value is None else value
    values = [_scalar(part.strip()) for part in text.split(",")]
    numbers = [value for value in values if value is not None]
    return numbers if len(numbers) == len(values) else text


def other_texts(values: Mapping[str, object], data: Mapping[str, str], message: str = "data") -> dict[str, str]:
    """Return the file's texts of the values in a message of params that Python spells differently."""
    return {f"{message}.{name}": data[name] for name, value in values.items() if data[name] != str(value)}


def _scalar(text: str) -> int | float | None:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if len(text) < 64 and _FLOAT.fullmatch(text) else None
