"""The XML of an IR: the file, parsed within limits."""

from __future__ import annotations

from pathlib import Path

from anylayer.errors import FileError
from anylayer.libraries import markup
from anylayer.libraries.markup import Element, Limits
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
