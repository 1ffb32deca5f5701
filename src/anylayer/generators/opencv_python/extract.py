"""Extract a layer class from the file that defines it, with the statements that it depends on."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

from anylayer.errors import LayerError, need, wording
from anylayer.layer.functions import is_function
from anylayer.layer.registry import Definition

_OWN = {"need": "_need", "Layer": "_Layer", "field": "_field"}
"""Names of anylayer that a class may use, and what they are called in the generated module."""
_PACKAGES = frozenset(("numpy", "cv2", *sys.stdlib_module_names))
"""Packages that a class may import."""


@dataclass(slots=True)
class Extract:
    """The extracted classes and the statements that they depend on. The texts are by (file, line), in the order of
    the files.

    `imports` are import statements. `uses` says that a class uses a name of anylayer.
    """

    statements: dict[tuple[str, int], str] = field(default_factory=dict)
    imports: list[str] = field(default_factory=list)
    uses: bool = False
    _bound: dict[str, tuple[str, int]] = field(default_factory=dict)

    def add(self, definition: Definition) -> str:
        """Add a class with the statements that it depends on, and return its name.

        Raises LayerError for a class that is not at the top level of a file, for imports of packages other than
        NumPy and cv2, and where two files use a name differently.
        """
        cls = definition.cls
        need(
            not is_function(cls),
            f"OpenCV registers classes, and type '{definition.type}' is a function; write it as a class with "
            "forward(self, inputs)",
        )
        plain = isinstance(cls, type) and cls.__qualname__ == cls.__name__
        need(plain, "only a class at the top level of a Python file can be written as source code")
        try:
            file, text = inspect.getsourcefile(cls) or "", inspect.getsource(sys.modules[cls.__module__])
            tree = ast.parse(text)
        except (OSError, TypeError, KeyError, SyntaxError):
            raise LayerError(f"the source code of its class cannot be read from {definition.origin}") from None
        _File(tree, text.splitlines(), file, self).add(cls.__name__)
        return cls.__name__

    def text(self) -> str:
        """Return the statements as source code."""
        return "\n\n\n".join(self.statements[place] for place in sorted(self.statements))

    def take(self, names: set[str], place: tuple[str, int], text: str) -> None:
        """Add a statement that binds names."""
        for name in names:
            other = self._bound.setdefault(name, place)
            need(
                other == place or (other[0] == place[0] and self.statements[other] == text),
                f"'{name}' means something else in {other[0]}; write one layer type per folder: "
                + wording("layer=[...]", "--layer TYPE"),
            )
        self.statements[place] = text


class _File:
    """A file from which classes are extracted."""

    def __init__(self, tree: ast.Module, lines: list[str], file: str, out: Extract) -> None:
        self.lines, self.file, self.out = lines, file, out
        self.binds: dict[str, list[ast.stmt]] = {}
        self.body = tree.body
        for statement in tree.body:
            for name in _bound(statement):
                self.binds.setdefault(name, []).append(statement)

    def add(self, name: str) -> None:
        """Add the statements that bind a name, and those that they depend on."""
        pending, visited = [name], set()
        while pending:
            name = pending.pop()
            for statement in self.binds.get(name, ()):
                if id(statement) not in visited:
                    visited.add(id(statement))
                    pending += self._take(statement)

    def _take(self, statement: ast.stmt) -> list[str]:
        """Add a statement, and return the names that it reads."""
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            for line in self._imports(statement):
                if line not in self.out.imports:
                    self.out.imports.append(line)
            return []
        self._without_registration(statement)
        for node in ast.walk(statement):
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                need(
                    not any("_need" in line for line in self._imports(node)),
                    f"its class imports anylayer in a function ({self.file}:{node.lineno}); import it at the top",
                )
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and self._is_anylayer(node.value)
            ):
                self._need_own(node.attr, node.lineno)
        self.out.take(_bound(statement), (self.file, statement.lineno), self._text(statement))
        return [n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Load)]

    def _text(self, statement: ast.stmt) -> str:
        """Return the lines of a statement, with the comment above it."""
        first = statement.lineno
        if isinstance(statement, (ast.ClassDef, ast.FunctionDef)) and statement.decorator_list:
            first = statement.decorator_list[0].lineno
        while first > 1 and self.lines[first - 2].startswith("#"):
            first -= 1
        return "\n".join(self.lines[first - 1 : statement.end_lineno])

    def _without_registration(self, statement: ast.stmt) -> None:
        """Remove `@anylayer.layer(...)`."""
        if isinstance(statement, ast.ClassDef):
            statement.decorator_list = [d for d in statement.decorator_list if not _registers(d)]

    def _is_anylayer(self, name: ast.Name) -> bool:
        return any(
            isinstance(s, ast.Import)
            and any(a.name == "anylayer" and (a.asname or a.name) == name.id for a in s.names)
            for s in self.binds.get(name.id, ())
        )

    def _need_own(self, name: str, line: int) -> None:
        need(
            name in _OWN,
            f"its class uses anylayer.{name} ({self.file}:{line}), which needs anylayer; write it in NumPy",
        )
        self.out.uses = True

    def _imports(self, statement: ast.Import | ast.ImportFrom) -> Iterator[str]:
        """Yield the lines that replace an import statement."""
        where = f"({self.file}:{statement.lineno})"
        for alias in statement.names:
            module = alias.name if isinstance(statement, ast.Import) else statement.module or ""
            root = "" if getattr(statement, "level", 0) else module.split(".")[0]
            if module == "__future__":
                continue
            if root != "anylayer":
                need(
                    root in _PACKAGES,
                    f"its class imports {module or 'a module'} {where}; only NumPy and Python's own modules are "
                    "available there: move the code into the file of the class",
                )
                yield ast.unparse(
                    ast.Import([alias])
                    if isinstance(statement, ast.Import)
                    else ast.ImportFrom(statement.module, [alias], 0)
                )
            elif isinstance(statement, ast.Import):
                need(module == "anylayer", f"its class imports {module} {where}, which needs anylayer")
                names = ", ".join(f"{name}={own}" for name, own in _OWN.items())
                self.out.uses = True
                yield f"{alias.asname or 'anylayer'} = types.SimpleNamespace({names})"
            elif alias.name != "layer":
                self._need_own(alias.name, statement.lineno)
                yield f"{alias.asname or alias.name} = {_OWN[alias.name]}"


def _registers(decorator: ast.expr) -> bool:
    """Return whether a decorator is `layer(...)`, which registers a class in anylayer."""
    function = decorator.func if isinstance(decorator, ast.Call) else None
    return getattr(function, "attr", getattr(function, "id", "")) == "layer"


def _bound(statement: ast.stmt) -> set[str]:
    """Return the names that a top-level statement binds in its file."""
    if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        return {statement.name}
    nodes = list(ast.walk(statement))
    names = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    names |= {
        a.asname or a.name.split(".")[0]
        for n in nodes
        if isinstance(n, (ast.Import, ast.ImportFrom))
        for a in n.names
    }
    return names | {n.name for n in nodes if isinstance(n, (ast.FunctionDef, ast.ClassDef))}
