"""Execute the definitions of a program that also does other things, for example one of OpenCV's samples.

A top-level statement is executed if it imports, defines or assigns, or registers a layer. Statements that read the
command line are skipped, and so are statements that depend on skipped ones.
"""

from __future__ import annotations
import __future__

import ast
from collections.abc import Iterator
from typing import Any

_REGISTER = frozenset(("dnn_registerLayer", "registerLayer"))
_ARGUMENTS = frozenset(("parse_args", "parse_known_args", "parse_intermixed_args"))
_DEFINING = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ASSIGNING = (ast.Assign, ast.AnnAssign, ast.AugAssign)
_BODIES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def reads_command_line(tree: ast.Module) -> bool:
    """Return whether a top-level statement of a file reads the command line."""
    return any(_parses(statement) for statement in tree.body)


def imports(tree: ast.Module) -> set[str]:
    """Return the top-level names of the modules that a file imports, anywhere in it."""
    modules: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules.update(alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.split(".")[0])
    return modules


def registrations(tree: ast.Module) -> list[tuple[str, str]]:
    """Return (layer type, class name) for each call that registers a layer with OpenCV, anywhere in the file."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _name(node.func) in _REGISTER]
    return [
        (call.args[0].value, call.args[1].id)
        for call in calls
        if len(call.args) == 2
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
        and isinstance(call.args[1], ast.Name)
    ]


def execute_definitions(tree: ast.Module, file: str, names: dict[str, Any]) -> None:
    """Execute the definitions of a file in the namespace `names`.

    An assignment or an import that raises an exception is skipped, with the statements that depend on it.
    Exceptions of other statements are raised.
    """
    skipped: set[str] = set()
    flags = _future(tree)
    for statement in tree.body:
        if not _depends(statement, skipped) and _defines(statement):
            try:
                code = compile(ast.Module([statement], []), file, "exec", flags, dont_inherit=True)
                exec(code, names)
            except Exception:
                if not isinstance(statement, (*_ASSIGNING, ast.Import, ast.ImportFrom)):
                    raise
            else:
                continue
        skipped.update(_bound(statement))


def _future(tree: ast.Module) -> int:
    """Return the compiler flags of a file's `from __future__ import` statements."""
    futures = [s for s in tree.body if isinstance(s, ast.ImportFrom) and s.module == "__future__"]
    flags = 0
    for alias in (alias for statement in futures for alias in statement.names):
        flags |= getattr(__future__, alias.name).compiler_flag
    return flags


def _defines(statement: ast.stmt) -> bool:
    if isinstance(statement, (*_DEFINING, *_ASSIGNING, ast.Pass)):
        return True
    if any(isinstance(node, ast.Call) and _name(node.func) in _REGISTER for node in _parts_executed(statement)):
        return True
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return _dotted_name(statement.value.func).startswith("sys.path.")
    if isinstance(statement, ast.Try):
        inner = [*statement.body, *statement.orelse, *statement.finalbody]
        return all(map(_defines, [*inner, *(s for handler in statement.handlers for s in handler.body)]))
    if isinstance(statement, ast.If):
        return all(map(_defines, [*statement.body, *statement.orelse]))
    return False


def _depends(statement: ast.stmt, skipped: set[str]) -> bool:
    """Return whether executing a statement reads the command line or a name that was skipped."""
    if _parses(statement):
        return True
    return any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in skipped
        for node in _parts_executed(statement)
    )


def _parses(statement: ast.stmt) -> bool:
    return any(
        (isinstance(node, ast.Call) and _name(node.func) in _ARGUMENTS)
        or (isinstance(node, ast.Attribute) and _dotted_name(node) == "sys.argv")
        for node in _parts_executed(statement)
    )


def _parts_executed(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the parts of a statement that are evaluated when it is executed, so not the bodies of functions."""
    yield node
    for name, value in ast.iter_fields(node):
        if isinstance(node, _BODIES) and name == "body":
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _parts_executed(child)


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a statement binds."""
    names = {n.id for n in _parts_executed(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    defined = {n.name for n in _parts_executed(statement) if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
    imported = {n.asname or n.name.split(".")[0] for n in _parts_executed(statement) if isinstance(n, ast.alias)}
    return names | defined | imported


def _name(function: ast.expr) -> str:
    """Return the last part of the name of a called function."""
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _dotted_name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return f"{_dotted_name(function.value)}.{function.attr}"
    return function.id if isinstance(function, ast.Name) else ""
