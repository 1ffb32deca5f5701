"""Find identifiers that do not name what they stand for. tools/counts.py counts them.

A variable is named after what it holds (`producer`, `slope`, `layer_class`), a function after what it returns or
does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

EMPTY = frozenset(("done", "found", "given", "got", "kept", "known", "made", "own", "taken", "wanted"))
"""Names of variables and parameters that fit any value."""
_IRREGULAR = frozenset(
    ("built", "chosen", "drawn", "held", "hidden", "left", "seen", "sent", "shown", "spent", "told", "written")
)
_NO_PARTICIPLES = frozenset(("embed", "exceed", "feed", "need", "proceed", "seed", "speed"))


def odd(tree: ast.Module) -> list[tuple[int, str]]:
    """Return the line and the name of each odd identifier of a module.

    These are the variables and parameters with a name of EMPTY, once per function, and the functions and classes
    whose name is a participle alone (`narrowed`, `Moved`), except properties and functions that return a bool.
    """
    found: dict[tuple[ast.AST, str], int] = {}
    for scope, line, name in _bound(tree, tree):
        found.setdefault((scope, name), line)
    return sorted((line, name) for (_, name), line in found.items())


def _bound(node: ast.AST, scope: ast.AST) -> Iterator[tuple[ast.AST, int, str]]:
    """Yield the odd names that a node and the nodes below it bind, each with its scope and line."""
    for below in ast.iter_child_nodes(node):
        inner = scope
        if isinstance(below, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            inner = below
            if is_participle(below.name) and not _describes(below):
                yield scope, below.lineno, below.name
        elif isinstance(below, ast.Lambda):
            inner = below
        elif isinstance(below, ast.Name) and isinstance(below.ctx, ast.Store) and _is_empty(below.id):
            yield scope, below.lineno, below.id
        elif isinstance(below, ast.arg) and _is_empty(below.arg):
            yield scope, below.lineno, below.arg
        yield from _bound(below, inner)


def _is_empty(name: str) -> bool:
    return name.strip("_") in EMPTY


def is_participle(name: str) -> bool:
    """Return whether a name is one word, and this word a past participle; names of Python such as __reversed__ are
    none."""
    word = name.strip("_")
    if name.startswith("__") or word not in (word.lower(), word.title()) or "_" in word:
        return False
    word = word.lower()
    regular = word.endswith("ed") and len(word) > 4 and word not in _NO_PARTICIPLES
    return regular or word in EMPTY or word in _IRREGULAR


def _describes(definition: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) -> bool:
    """Return whether a definition is a property or returns a bool: there a participle is the right word."""
    if isinstance(definition, ast.ClassDef):
        return False
    answers = definition.returns is not None and ast.unparse(definition.returns) == "bool"
    return answers or any("property" in ast.unparse(decorator) for decorator in definition.decorator_list)
