"""Show the docstrings of this project in the reference of the site, as a Griffe extension: see mkdocs.yml.

A docstring describes its parameters as "name: text" or "name, other: text", at the beginning of a paragraph and
after the sentences about another parameter. In the site they become a list.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

_DESCRIBED = re.compile(r"(?:^|(?<=\. ))(\w+(?:, \w+)*): ")


class Parameters(griffe.Extension):
    """Make a list of the parameters that a docstring describes."""

    def on_function(self, *, func: griffe.Function, **_: Any) -> None:
        """Rewrite the docstring of a function."""
        if func.docstring is not None:
            func.docstring.value = listed(func.docstring.value, {p.name.lstrip("*") for p in func.parameters})


def listed(text: str, parameters: set[str]) -> str:
    """Return a docstring in which paragraphs that describe parameters are lists of them."""
    return "\n\n".join(_listed(paragraph, parameters) for paragraph in text.split("\n\n"))


def _listed(paragraph: str, parameters: set[str]) -> str:
    joined = " ".join(paragraph.split())
    found = [m for m in _DESCRIBED.finditer(joined) if set(m[1].split(", ")) <= parameters]
    if not found or found[0].start():
        return paragraph
    ends = [*(m.start() for m in found[1:]), len(joined)]
    names = [", ".join(f"`{name}`" for name in m[1].split(", ")) for m in found]
    return "\n".join(f"- {n}: {joined[m.end() : end].strip()}" for n, m, end in zip(names, found, ends))
