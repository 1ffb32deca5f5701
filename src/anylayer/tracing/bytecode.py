"""References in bytecode: the names that code reads, the attributes that it reads from them, and the source
lines.
"""

from __future__ import annotations

import dis
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType

_GLOBALS = ("LOAD_GLOBAL", "LOAD_NAME")
_CELLS = ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF")
_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_CALLS = ("CALL", "CALL_FUNCTION", "CALL_METHOD")
_BETWEEN = ("CACHE", "PUSH_NULL", "PRECALL", "EXTENDED_ARG", "NOP", "RESUME")


@dataclass(frozen=True, slots=True)
class NameReference:
    """A name that code reads, and the chain of attributes that it reads from it.

    `kind` is "global", "cell" or "import". `bare` is true if the result is called at once without arguments, or
    with None as the only argument.
    """

    kind: str
    name: str
    attributes: tuple[str, ...]
    line: int
    bare: bool


@dataclass(frozen=True, slots=True)
class Mentions:
    """The references and names in a code object, including the code objects nested in it."""

    references: tuple[NameReference, ...]
    names: frozenset[str]
    """Names of globals, attributes and keywords, and constant strings, which getattr may take as names."""


@lru_cache(maxsize=4096)
def mentions(code: CodeType) -> Mentions:
    """Return the references and names in a code object."""
    constants = [c for constant in code.co_consts for c in (constant if type(constant) is tuple else (constant,))]
    names = {*code.co_names, *(c for c in constants if type(c) is str and c.isidentifier())}
    references = _references(code)
    for nested in code.co_consts:
        if isinstance(nested, CodeType):
            inner = mentions(nested)
            names |= inner.names
            references += inner.references
    return Mentions(tuple(references), frozenset(names))


def _references(code: CodeType) -> list[NameReference]:
    found: list[NameReference] = []
    line = code.co_firstlineno
    steps = []
    starts = dict(dis.findlinestarts(code))
    for step in dis.get_instructions(code):
        line = starts.get(step.offset) or line
        if step.opname not in _BETWEEN:
            steps.append((step.opname, step.argval, step.arg, line))
    for i, (opcode, name, _, line) in enumerate(steps):
        if opcode in _GLOBALS:
            kind = "global"
        elif opcode in _CELLS:
            kind = "cell"
        elif opcode == "IMPORT_NAME":
            kind = "import"
        else:
            continue
        attributes, end = _attributes(steps, i + 1, kind)
        for taken, bare in attributes or [((), _bare(steps, end))]:
            found.append(NameReference(kind, str(name), taken, line, bare))
    return found


def _attributes(
    steps: list[tuple[str, object, int | None, int]], at: int, kind: str
) -> tuple[list[tuple[tuple[str, ...], bool]], int]:
    """Return the chains of attributes that instructions read from index `at` on, and the index after them.

    Each chain has `bare` of NameReference. `from m import a, b` gives one chain per imported name.
    """
    if kind == "import" and at < len(steps) and steps[at][0] == "IMPORT_FROM":
        chains: list[tuple[tuple[str, ...], bool]] = []
        while at < len(steps) and steps[at][0] in ("IMPORT_FROM", "STORE_FAST", "STORE_NAME", "STORE_DEREF"):
            if steps[at][0] == "IMPORT_FROM":
                chains.append(((str(steps[at][1]),), True))
            at += 1
        return chains, at
    taken: list[str] = []
    while at < len(steps) and steps[at][0] in _ATTRIBUTES:
        taken.append(str(steps[at][1]))
        at += 1
    return ([(tuple(taken), _bare(steps, at))] if taken else []), at


def _bare(steps: list[tuple[str, object, int | None, int]], at: int) -> bool:
    """Return whether the step at `at` is a call without arguments, or with None as the only argument."""
    if at < len(steps) and steps[at][0] == "LOAD_CONST" and steps[at][1] is None:
        return at + 1 < len(steps) and steps[at + 1][0] in _CALLS and steps[at + 1][2] == 1
    return at < len(steps) and steps[at][0] in _CALLS and steps[at][2] == 0
