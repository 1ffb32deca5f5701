"""Questions about syntax trees: what statements may leave, assign and change."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
LOOPS = (ast.For, ast.While)
JUMPS = (ast.Return, ast.Continue, ast.Break)
IN_ORDER = (
    ast.Call, ast.keyword, ast.Starred, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Subscript, ast.Slice,
    ast.Attribute, ast.Tuple, ast.List,
)  # fmt: skip
"""The expressions whose parts Python evaluates one after another, in the order of their fields."""
_STATEMENTS = (
    *LOOPS, *JUMPS, ast.If, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Assert,
)  # fmt: skip
"""The statements that may stand in an `if` or a loop that is changed."""
_EXPRESSIONS = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Subscript, ast.Slice,
    ast.Attribute, ast.Tuple, ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
    ast.expr_context, ast.ListComp, ast.comprehension,
)  # fmt: skip
"""The nodes of expressions that have no effect of their own, except for calls."""
_FUNCTIONS = frozenset(("int", "float", "abs", "min", "max", "round", "bool"))
_MODULES = frozenset(("np", "numpy", "math"))
_METHODS = frozenset((
    "sum", "mean", "max", "min", "any", "all", "astype", "item", "clip", "argmax", "argmin", "std", "var", "prod",
    "round", "dot", "reshape", "copy",
))  # fmt: skip


def inside(nodes: Sequence[ast.AST], stop: tuple[type, ...] = ()) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without what is inside of nodes of the types `stop` and of other scopes."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*SCOPES, *_COMPREHENSIONS, *stop)):
            waiting.extend(ast.iter_child_nodes(node))


def jumps(nodes: Sequence[ast.AST]) -> bool:
    """Return whether statements may leave the function, or the loop in which they stand."""
    return returns(nodes) or any(isinstance(n, JUMPS) for n in inside(nodes, LOOPS))


def returns(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(n, ast.Return) for n in inside(nodes))


def leaves(statements: Sequence[ast.stmt]) -> bool:
    """Return whether the statements after these are never reached."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return leaves(last.body) and leaves(last.orelse)
    return isinstance(last, (*JUMPS, ast.Raise))


def assigned_names(nodes: Sequence[ast.AST]) -> list[str]:
    return sorted({n.id for n in inside(nodes) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})


def list_of_append(n: ast.AST) -> str:
    """Return the variable x of a call x.append(...), or ""."""
    if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "append":
        return getattr(n.func.value, "id", "")
    return ""


def list_of_store(n: ast.AST) -> str:
    """Return the variable x of a target x[i], or ""."""
    return getattr(n.value, "id", "") if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) else ""


def may_change(statements: Sequence[ast.stmt]) -> bool:
    """Return whether statements may be executed for each side, or recorded as the body of a loop."""
    return all(isinstance(n, _STATEMENTS) for n in inside(statements) if isinstance(n, ast.stmt))


def is_plain_statement(s: ast.stmt) -> bool:
    """Return whether a statement only assigns expressions without effects to local variables."""
    if isinstance(s, ast.If):
        return is_plain(s.test) and all(map(is_plain_statement, s.body + s.orelse))
    if isinstance(s, ast.Assign):
        targets = [t for x in s.targets for t in (x.elts if isinstance(x, ast.Tuple) else [x])]
        return all(isinstance(t, ast.Name) for t in targets) and is_plain(s.value)
    if isinstance(s, ast.AugAssign):
        return isinstance(s.target, ast.Name) and is_plain(s.value)
    return isinstance(s, ast.Pass)


def is_plain(e: ast.AST) -> bool:
    """Return whether an expression has no effect: its calls are those of NumPy and of numbers."""
    return all(
        isinstance(n, _EXPRESSIONS) and (not isinstance(n, ast.Call) or _is_known(n.func)) for n in ast.walk(e)
    )


def is_name(e: ast.AST) -> bool:
    """Return whether an expression is a name, or an attribute of one: `out.append`."""
    return isinstance(e, ast.Name) or (isinstance(e, ast.Attribute) and is_name(e.value))


def _is_known(f: ast.expr) -> bool:
    if isinstance(f, ast.Name):
        return f.id in _FUNCTIONS
    if not isinstance(f, ast.Attribute):
        return False
    return f.attr in _METHODS or (isinstance(f.value, ast.Name) and f.value.id in _MODULES)
