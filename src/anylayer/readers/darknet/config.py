"""The .cfg file: sections with options, as Darknet's read_cfg reads them (AlexeyAB/darknet src/parser.c)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from anylayer.errors import FileError, need
from anylayer.protobuf.text import MAX_TEXT_BYTES, read_limited
from anylayer.readers._folder import need_in_folder
from anylayer.readers._limits import MAX_NODES

_SECTION = re.compile(r"\[([A-Za-z_][A-Za-z_0-9]{0,63})\]")
_SPACE = re.compile(r"\s+")
NET_OPTIONS = ("channels", "height", "width", "inputs", "letter_box")
"""The options of [net] that are read. Training depends on the others."""
_NUMBERS = re.compile(r"[-+0-9.eE,]+")
_CLASS = re.compile(r"\S+(?:\s+(-?\d{1,9}).*)?")


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


def read_text(path: Path) -> str:
    """Return the text of a file of limited size."""
    return read_limited(path, MAX_TEXT_BYTES).decode("utf-8", "replace")


def _without_comment(value: str, place: str) -> str:
    """Return numbers without the comment after them. Darknet reads a word together with the comment."""
    bare, mark, _ = value.partition("#")
    need(not mark or _NUMBERS.fullmatch(bare), f"{place}: a comment must have its own line", FileError)
    return bare


def read_tree(name: str, model: Path) -> list[int | float]:
    """Return the parent of each class, -1 for none. Raise FileError where there is no such file, or for its line.

    name: its path, of which only the last part is used: the file must be beside the .cfg file `model`.
    """
    path = model.parent / re.split(r"[/\\]", name)[-1]
    rule = f"the tree of classes '{name}' does not exist: put '{path.name}' beside the .cfg file"
    need(path.is_file(), rule, FileError)
    need_in_folder(path, model, f"'{path.name}'")
    lines, parents = read_text(path).strip().splitlines(), list[int | float]()
    need(0 < len(lines) <= MAX_NODES, f"{path}: it has {len(lines)} classes; 1 to {MAX_NODES} are read", FileError)
    for number, line in enumerate(lines, 1):
        match = _CLASS.fullmatch(line.strip())
        parents.append(int(match[1] or -1) if match else -2)
        rule = (
            f"{path}:{number}: '{line[:40]}' must be a class and the number of an earlier class, its parent, or -1"
        )
        need(-1 <= parents[-1] < number - 1, rule, FileError)
    return parents
