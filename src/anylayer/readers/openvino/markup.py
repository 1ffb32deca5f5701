"""The XML of an IR: the file, parsed within limits, and the values of attributes, which it stores as text."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Union

from anylayer.errors import FileError
from anylayer.libraries import markup
from anylayer.libraries.markup import Element, Limits
from anylayer.network import Flag
from anylayer.readers._limits import MAX_NESTING, MAX_XML_BYTES, MAX_XML_ELEMENTS

_SKIPPED = frozenset({"rt_info", "cli_parameters", "meta_data", "statistics", "quantization_parameters"})
"""Elements that describe how a model was made. They are skipped, except the <rt_info> of a layer or a port, and
what anylayer's writer states in the <rt_info> of the network."""


def _skips(tag: str, parent: str | None) -> bool:
    if parent == "rt_info":
        return tag not in ("attribute", "anylayer")
    return parent is not None and tag in _SKIPPED and not (tag == "rt_info" and parent in ("layer", "port", "net"))


_LIMITS = Limits("an IR", MAX_XML_ELEMENTS, MAX_NESTING, _skips)


def parse(path: Path) -> Element:
    """Return the root element of an XML file. Raise FileError, with the line if known."""
    size = path.stat().st_size
    if size > MAX_XML_BYTES:
        raise FileError(f"the file has {size} bytes; the limit for a network's XML is {MAX_XML_BYTES}")
    with path.open("rb") as file:
        return markup.parse(file, _LIMITS)


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

    >>> typed("2"), typed("2, 1"), typed("1e-05"), typed("same_upper"), typed("true"), typed("ij,jk->ik")
    (2, [2, 1], 1e-05, 'same_upper', true, 'ij,jk->ik')
    """
    if "," not in text:
        value = _scalar(text.strip())
        return text if value is None else value
    values = [_scalar(part.strip()) for part in text.split(",")]
    numbers = [value for value in values if value is not None]
    return numbers if len(numbers) == len(values) else text


def other_texts(values: Mapping[str, AttributeValue], data: Mapping[str, str]) -> dict[str, str]:
    """Return the file's texts of the values in params' message "data" that Python spells differently."""
    return {f"data.{name}": data[name] for name, value in values.items() if data[name] != str(value)}


def _scalar(text: str) -> int | float | None:
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    return float(text) if len(text) < 64 and _FLOAT.fullmatch(text) else None
