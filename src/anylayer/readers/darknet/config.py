"""The .cfg file: sections with options, as Darknet's read_cfg reads them (AlexeyAB/darknet src/parser.c)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from anylayer.errors import FileError, need

_SECTION = re.compile(r"\[([A-Za-z_][A-Za-z_0-9]{0,63})\]")
_SPACE = re.compile(r"\s+")
NET_OPTIONS = ("channels", "height", "width", "letter_box")
"""The options of [net] that are read. Training depends on the others."""
_NUMBERS = re.compile(r"[-+0-9.eE,]+")


@dataclass(slots=True)
class Section:
    """A section: its type, its line, and the text and the line of each option."""

    type: str
    line: int
    options: dict[str, str] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)


def parse(text: str, file: str) -> list[Section]:
    """Return the sections of a file. White space means nothing, and lines that begin with # or ; are comments.

    Raise FileError for a line that is neither a section nor an option, and for an option that is given twice with
    different values: Darknet uses the first one, and OpenCV the last one. [net] keeps only NET_OPTIONS.
    """
    sections: list[Section] = []
    for number, line in enumerate(text.removeprefix("\ufeff").split("\n"), 1):
        content = _SPACE.sub("", line)
        if not content or content[0] in "#;\0":
            continue
        place = f"{file}:{number}"
        if content[0] == "[":
            head = _SECTION.fullmatch(content.partition("#")[0])
            if head is None:
                raise FileError(f"'{line.strip()[:40]}' is not the name of a section", place)
            sections.append(Section(head[1], number))
            continue
        name, equals, value = content.partition("=")
        need(equals and name and value, f"{place}: '{line.strip()[:40]}' is not an option 'name=value'", FileError)
        if len(sections) == 1 and name not in NET_OPTIONS:
            continue
        value = _without_comment(value, place)
        options = sections[-1].options if sections else {}
        need(options.get(name, value) == value, f"{place}: option '{name}' is given twice", FileError)
        options[name] = value
        if sections:
            sections[-1].lines[name] = number
    need(
        sections and sections[0].type in ("net", "network"), f"{file}: its first section must be [net]", FileError
    )
    return sections


def _without_comment(value: str, place: str) -> str:
    """Return numbers without the comment after them. Darknet reads a word together with the comment."""
    bare, mark, _ = value.partition("#")
    need(not mark or _NUMBERS.fullmatch(bare), f"{place}: a comment must have its own line", FileError)
    return bare
