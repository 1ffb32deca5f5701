"""Count what docs/architecture.md states about the source code: `python -m tools.counts [FOLDER]`."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ANY = re.compile(r"\bAny\b")
LIMIT = re.compile(r"_?(\w+_)?(MAX|MOST|LIMIT|LARGEST)(_\w+)?")
"""The names of constants that state a limit."""


def _late_imports(node: ast.AST, late: bool = False) -> int:
    """Count the import statements inside functions, except those for type checkers."""
    if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
        return sum(_late_imports(below, late) for below in node.orelse)
    late = late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    own = late and isinstance(node, (ast.Import, ast.ImportFrom))
    return own + sum(_late_imports(below, late) for below in ast.iter_child_nodes(node))


def _limits(tree: ast.Module) -> int:
    """Count the constants of a module that state a limit."""
    targets = [t for s in tree.body if isinstance(s, ast.Assign) for t in s.targets]
    targets += [s.target for s in tree.body if isinstance(s, ast.AnnAssign)]
    names = [
        n.id for t in targets for n in (t.elts if isinstance(t, ast.Tuple) else [t]) if isinstance(n, ast.Name)
    ]
    return sum(LIMIT.fullmatch(name) is not None for name in names)


def main() -> None:
    root = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent.parent / "src")
    texts = [path.read_text("utf-8") for path in sorted(root.rglob("*.py"))]
    trees = [ast.parse(text) for text in texts]
    print(f"lines: {sum(len(text.splitlines()) for text in texts)}")
    print(f"files: {len(texts)}")
    print(f"uses of Any: {sum(len(ANY.findall(text)) for text in texts)}")
    print(f"imports inside functions: {sum(map(_late_imports, trees))}")
    print(f"limits: {sum(map(_limits, trees))}")


if __name__ == "__main__":
    main()
