"""XML files, parsed within limits: no DTD, no entities, limited depth and number of elements."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat

from anylayer.errors import FileError

_MAX_LEAF_TEXT = 4096
"""Characters of an element's text that are kept, apart from the last run of characters."""
_DECLARATION = re.compile(rb"\A(?:\xef\xbb\xbf)?\s*<\?xml\s[^>]*\?>")
_DTD = re.compile(rb"<!(DOCTYPE|ENTITY)")
_ENCODING = re.compile(rb"encoding\s*=\s*[\"']([^\"']*)")


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


@dataclass(frozen=True, slots=True)
class Limits:
    """What a file may contain. `what` names the file in messages: "an IR".

    `skips(tag, parent)` returns whether an element is left out with all that it contains. `parent` is the tag of
    the element around it, None for the first one.
    """

    what: str
    elements: int
    nesting: int
    skips: Callable[[str, str | None], bool] = lambda tag, parent: False


class _ElementBuilder:
    """A builder of Elements from the events of an expat parser.

    `skipped` is the depth inside a skipped element.
    """

    def __init__(self, parser: expat.XMLParserType, limits: Limits) -> None:
        self.parser, self.limits = parser, limits
        self.root: Element | None = None
        self.stack: list[Element] = []
        self.count = 0
        self.skipped = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        line, limits = self.parser.CurrentLineNumber, self.limits
        if self.skipped or limits.skips(tag, self.stack[-1].tag if self.stack else None):
            self.skipped += 1
            return
        self.count += 1
        if self.count > limits.elements:
            raise FileError(f"line {line}: the file has more than {limits.elements} elements")
        if len(self.stack) >= limits.nesting:
            raise FileError(f"line {line}: elements are nested deeper than {limits.nesting}")
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
        line, what = self.parser.CurrentLineNumber, self.limits.what
        raise FileError(f"line {line}: the file declares a document type (DTD), which is not supported in {what}")


def parse(file: BinaryIO, limits: Limits) -> Element:
    """Return the root element of an XML document. Raise FileError, with the line if known."""
    parser = expat.ParserCreate()
    return _parse(parser, limits, lambda: parser.ParseFile(file))


def parse_sequence(data: bytes, limits: Limits) -> list[Element]:
    """Return the elements of a file that is a sequence of elements without one around them.

    Raise FileError, with the line if known.
    """
    declaration = _DECLARATION.match(data)
    if declaration is not None:
        encoding = _ENCODING.search(declaration[0])
        if encoding is not None and encoding[1].lower() not in (b"utf-8", b"us-ascii"):
            raise FileError(f"its encoding is {encoding[1].decode('ascii', 'replace')}, expected UTF-8")
        data = b"\n" * declaration[0].count(b"\n") + data[declaration.end() :]
    data = data.removeprefix(b"\xef\xbb\xbf")
    parser = expat.ParserCreate("UTF-8")

    def feed() -> None:
        for part in (b"<sequence>", data, b"</sequence>"):
            parser.Parse(part)
        parser.Parse(b"", True)

    try:
        return _parse(parser, limits, feed).children
    except FileError as error:
        if error.message.startswith("line ") and _DTD.search(data):  # expat knows it before elements only
            raise FileError(f"{error.message}. Document types (DTD) and entities are not supported") from None
        raise


def _parse(parser: expat.XMLParserType, limits: Limits, feed: Callable[[], object]) -> Element:
    builder = _ElementBuilder(parser, limits)
    parser.StartElementHandler = builder.start
    parser.EndElementHandler = builder.end
    parser.CharacterDataHandler = builder.text
    parser.StartDoctypeDeclHandler = builder.refuse_declaration
    parser.EntityDeclHandler = builder.refuse_declaration
    try:
        feed()
    except expat.ExpatError as error:
        raise FileError(f"line {error.lineno}: this is not XML: {expat.ErrorString(error.code)}") from None
    except (ValueError, LookupError) as error:  # an encoding that Python does not know
        raise FileError(f"this is not XML: {error}") from None
    if builder.root is None:
        raise FileError("this is not XML: it has no element")
    return builder.root
