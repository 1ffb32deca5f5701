"""The fixed part of C++ files with loops: includes, and the functions that loops call."""

from __future__ import annotations

import re

from anylayer.folders import template

_DEFINED = re.compile(r"(?:^|>\s*)(?:inline \S+|struct|class|Blocks) (\w+)", re.MULTILINE)
"""The name of a function or class of the helpers."""


def prelude(text: str, *, pooled: bool = True) -> str:
    """Return the includes, and the helpers that a C++ text uses.

    pooled: whether the memory of arrays is kept for later calls. Each object that calls the loops then has a
    `Keeper`. Otherwise functions allocate the arrays that they use for themselves.
    """
    words, kept = _words(text), []
    loops, functions = (template(__file__, name).split("\n\n") for name in ("loops.hpp", "functions.hpp"))
    memory = template(__file__, "pool.hpp" if pooled else "memory.hpp")
    for block in reversed([*loops, memory, *functions]):
        if words & set(_DEFINED.findall(block)):
            words |= _words(block)
            kept.append(block.strip("\n"))
    return "\n\n".join([template(__file__, "includes.hpp").strip("\n"), *kept[::-1], "}  // namespace\n"])


def _words(code: str) -> set[str]:
    """Return the words of C++ code, without those of its comments."""
    return set(re.findall(r"\w+", re.sub(r"//[^\n]*", "", code)))
