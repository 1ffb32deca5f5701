"""The XML of an IR, parsed within limits: no DTD, no entities, limited depth and size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from anylayer.errors import FileError
from anylayer.readers._limits import MAX_NESTING, MAX_XML_BYTES, MAX_XML_ELEMENTS

_MAX_LEAF_TEXT = 4096
"""Characters of an element's text that are kept, apart from the last run of characters."""
_SKIPPED = frozenset({"rt_info", "cli_parameters", "meta_data", "statistics", "quantization_parameters"})
"""Elements that describe how a model was made. They are skipped, except the <rt_info> of a layer or a port."""


@dataclass(slots=True)
class Element:
    """An XML element. `text` is the text of a leaf, and `line` the element's line in the file."""

    tag: str
    attributes: dict[str, str]
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def child(self, tag: str) -> Element | None:
        """Return the first child with a tag, or None."""
        return next((c for c in self.children if c.tag == tag), None)

    def all(self, tag: str) -> Iterator[Element]:
        """Return the children with a tag."""
        return (c for c in self.children if c.tag == tag)


class _Builder:
    """A builder of Elements from the events of an expat parser.

    `skipped` is the depth inside a skipped element.
    """

    def __init__(self, parser: expat.XMLParserType) -> None:
        self.parser = parser
        self.root: Element | None = None
        self.stack: list[Element] = []
        self.count = 0
        self.skipped = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line = self.parser.CurrentLineNumber
        kept = tag == "rt_info" and bool(self.stack) and self.stack[-1].tag in ("layer", "port")
        if self.skipped or (self.stack and tag in _SKIPPED and not kept):
            self.skipped += 1
            return
        self.count += 1
        if self.count > MAX_XML_ELEMENTS:
            raise FileError(f"line {line}: the file has more than {MAX_XML_ELEMENTS} elements")
        if len(self.stack) >= MAX_NESTING:
            raise FileError(f"line {line}: elements are nested deeper than {MAX_NESTING}")
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
        if self.skipped or not self.stack:
            return
        leaf = self.stack[-1]
        if not leaf.children and len(leaf.text) < _MAX_LEAF_TEXT:
            leaf.text += data.strip()

    def refuse_declaration(self, *_: object) -> None:
        line = self.parser.CurrentLineNumber
        raise FileError(f"line {line}: the file declares a document type (DTD), which is not supported in an IR")


def parse(path: Path) -> Element:
    """Return the root element of an XML file. Raise FileError, with the line if known."""
    size = path.stat().st_size
    if size > MAX_XML_BYTES:
        raise FileError(f"the file has {size} bytes; the limit for a network's XML is {MAX_XML_BYTES}")
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
        raise FileError("this is not XML: it has no element")
    return builder.root
