"""Text from files in source code: names that are safe identifiers, and comments that cannot end early.

A network's file is untrusted. Its names and paths enter a project only through these functions.
"""

from __future__ import annotations

import inspect
import linecache
import re
from collections.abc import Iterable
from itertools import takewhile
from pathlib import Path

from anylayer.layer import Bound
from anylayer.source import unused_name

_MAX_NAME_LENGTH = 64
"""The largest number of characters of a name that an identifier keeps."""


class Names:
    """The identifiers of one scope, each of which is used once.

    reserved: names that are never returned: keywords, and names that the scope uses.
    """

    def __init__(self, reserved: Iterable[str]) -> None:
        self._taken = set(reserved)

    def new(self, wanted: str, otherwise: str = "value") -> str:
        """Return an identifier that resembles `wanted`: ASCII letters, digits and single underscores.

        otherwise: the identifier for a name without letters and digits, and the prefix for one that begins with a
        digit. A number is appended to a name that is reserved or used already.
        """
        plain = re.sub(r"[^A-Za-z0-9]+", "_", wanted).strip("_")[:_MAX_NAME_LENGTH].strip("_")
        if not plain or plain[0].isdigit():
            plain = f"{otherwise}_{plain}".strip("_")
        return unused_name(plain, self._taken)


def common_folder(names: Iterable[str]) -> str:
    """Return the folder that all names have in common: "model/" for "model/a/b" and "model/c", "" for "a" and
    "b/c". Empty names are ignored.
    """
    folders = [name.split("/")[:-1] for name in names if name]
    shared = takewhile(lambda parts: len(set(parts)) == 1, zip(*folders))
    return "".join(f"{parts[0]}/" for parts in shared)


def source_line(place: str, bound: Bound | None) -> str:
    """Return a place in the user's code, followed by the source line if it is in the file of the layer's class."""
    name, _, number = place.rpartition(":")
    try:
        file = inspect.getsourcefile(bound.definition.cls) if bound is not None else None
    except TypeError:
        file = None
    if file is None or Path(file).name != name:
        return place
    return f"{place}: {linecache.getline(file, int(number)).strip()}"


def comment(text: str) -> str:
    """Return text that is safe in a one-line comment: characters that are not printable become "."."""
    return "".join(c if c.isprintable() else "." for c in text).replace("\\", "/")
