"""The XML of an IR, read with limits: no DTD, no entities, bounded depth and size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.parsers import expat

from anylayer.errors import FileError

_MOST_BYTES = 1 << 28
_MOST_ELEMENTS = 2_000_000
_MOST_DEPTH = 64
_SKIPPED = frozenset({"rt_info", "cli_parameters", "meta_data", "statistics", "quantization_parameters"})
"""Elements that say how a model was made; what is in them is not kept (of a layer and its ports it is)."""


@dataclass(slots=True)
class Element:
    """An XML element: its attributes, its children, the text of a leaf, and its line in the file."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def child(self, tag: str) -> Element | None:
        """The first child of that tag."""
        return next((c for c in self.children if c.tag == tag), None)

    def all(self, tag: str) -> Iterator[Element]:
        """The children of that tag."""
        return (c for c in self.children if c.tag == tag)


class _Builder:
    """What expat calls."""

    def __init__(self, parser: Any) -> None:
        self.parser = parser
        self.root: Element | None = None
        self.stack: list[Element] = []
        self.count = 0
        self.skipped = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        told = tag == "rt_info" and bool(self.stack) and self.stack[-1].tag in ("layer", "port")
        if self.skipped or (self.stack and tag in _SKIPPED and not told):
            self.skipped += 1
            return
        self.count += 1
        if self.count > _MOST_ELEMENTS:
            raise FileError(f"line {line}: it has more than {_MOST_ELEMENTS} elements")
        if len(self.stack) >= _MOST_DEPTH:
            raise FileError(f"line {line}: elements are nested more than {_MOST_DEPTH} deep")
        element = Element(tag, attributes, line)
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)

    def end(self, tag: str) -> None:
        if self.skipped:
            self.skipped -= 1
        else:
            self.stack.pop()

    def text(self, data: str) -> None:
        if not self.skipped and self.stack and not self.stack[-1].children and len(self.stack[-1].text) < 4096:
            self.stack[-1].text += data.strip()

    def refuse_declaration(self, *_: Any) -> None:
        line = self.parser.CurrentLineNumber
        raise FileError(f"line {line}: it declares a document type (DTD), which an IR has no use for")


def parse(path: Path) -> Element:
    """The root element of an XML file. Raises FileError, with the line."""
    size = path.stat().st_size
    if size > _MOST_BYTES:
        raise FileError(f"the file has {size} bytes, {_MOST_BYTES} are the most for a network's XML")
    parser = expat.ParserCreate()
    builder = _Builder(parser)
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.refuse_declaration
    parser.EntityDeclHandler = builder.refuse_declaration
    try:
        with path.open("rb") as handle:
            parser.ParseFile(handle)
    except expat.ExpatError as error:
        raise FileError(f"line {error.lineno}: this is not XML: {expat.ErrorString(error.code)}") from None
    except (ValueError, LookupError) as error:  # an encoding that Python does not know
        raise FileError(f"this is not XML: {error}") from None
    if builder.root is None:
        raise FileError("this is not XML: there is no element in it")
    return builder.root
