"""Independent ifs in a row: both sides are computed, and joined after each `if`, so that paths do not multiply.

Code with more paths than the limit is traced once more with its functions compiled from changed source code: an
`if` whose sides only assign expressions to local variables becomes a loop over both sides (see BothSides). This
needs the source of exactly the code that runs. Any other `if` is still a decision: see anylayer.tracing.decisions.
"""

from __future__ import annotations

import ast
import builtins
import copy
import linecache
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

import numpy as np

from anylayer.errors import TraceError
from anylayer.graph.place import place_of, position_of, refusal, user_frame
from anylayer.graph.symbolic import same_shape
from anylayer.tracing.array import TracedArray
from anylayer.tracing.decisions import Decision, TooManyPaths, current_run
from anylayer.tracing.python_numbers import PythonNumber, as_dtype_of, kind_of, number
from anylayer.tracing.record import running_graph

_ABSENT = object()
_NAMES = _IF, _LOCALS, _UNBOUND = "_anylayer_if", "_anylayer_locals", "_anylayer_unbound"
_EXPRESSIONS = (
    ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.Compare, ast.BoolOp, ast.IfExp, ast.Subscript, ast.Slice,
    ast.Attribute, ast.Tuple, ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.cmpop, ast.boolop,
    ast.expr_context,
)  # fmt: skip
"""The nodes of expressions that have no effect of their own, except for calls."""
_FUNCTIONS = frozenset(("int", "float", "abs", "min", "max", "round", "bool"))
_MODULES = frozenset(("np", "numpy", "math"))
_METHODS = frozenset((
    "sum", "mean", "max", "min", "any", "all", "astype", "item", "clip", "argmax", "argmin", "std", "var", "prod",
    "round", "dot", "reshape", "copy",
))  # fmt: skip


class BothSides:
    """One execution of an `if` statement: a loop over the sides that the network may take.

    names: the local variables that the sides assign. variables: the local variables before the statement. `side`
    is the answer to the condition in the current iteration.
    """

    def __init__(self, condition: Any, names: Sequence[str], variables: Mapping[str, Any]) -> None:
        self.names = names
        self.start = [variables.get(n, _ABSENT) for n in names]
        self.run, self.side = current_run.get(), False
        self.decision = None if self.run is None else self._decision(condition)
        self.left = [True, False] if self.decision is not None else [bool(condition)]
        self.first: list[Any] = []

    def _decision(self, condition: Any) -> Decision | None:
        x = condition.array if type(condition) is PythonNumber else condition
        if self.run is None or type(x) is not TracedArray or x._const() is not None or x.shape:
            return None
        value = self.run.condition_of(x)
        if value.const is not None or self.run.answer_of(value) is not None:
            return None
        frame = user_frame()
        position = None if frame is None else position_of(frame)
        return Decision(value, place_of(frame), position, 0, len(x._graph.ops), True)

    def another(self) -> bool:
        """Begin the next side, or return False."""
        if self.left:
            self.side = self.left.pop(0)
            if self.run is not None and self.decision is not None:
                self.run.enter(self.decision, self.side)
            return True
        return False

    def results(self, variables: Mapping[str, Any]) -> list[Any]:
        """Return the values that the variables get after a side: those of before the statement, or joined ones."""
        values = [variables.get(n, _ABSENT) for n in self.names]
        if self.run is None or self.decision is None:
            return values
        self.run.leave()
        if self.side:
            self.first = values
            return self.start
        condition = TracedArray(running_graph(), self.decision.condition)
        return [self.choice(n, condition, a, b) for n, a, b in zip(self.names, self.first, values)]

    def choice(self, name: str, condition: Any, a: Any, b: Any) -> Any:
        """Return the value that is `a` where the condition is true, and `b` where it is false."""
        if a is b:
            return a
        if a is _ABSENT or b is _ABSENT:
            return _ABSENT
        kind = kind_of(a)
        if kind is not None and kind is kind_of(b):
            if type(a) is not PythonNumber and type(b) is not PythonNumber and repr(a) == repr(b):
                return a
            return number(np.where(condition, as_dtype_of(a, kind), as_dtype_of(b, kind)), kind)
        if type(a) is tuple and type(b) is tuple and len(a) == len(b):
            return tuple(self.choice(name, condition, v, w) for v, w in zip(a, b))
        if type(a) is type(b) and type(a) in (str, bytes, type(None)) and a == b:
            return a
        scalars = _is_scalar(a), _is_scalar(b)
        arrays = [x for x in (a, b) if type(x) is TracedArray]
        same = all(scalars) or (len(arrays) == 2 and not any(scalars))
        if self.run is not None and same and a.dtype == b.dtype and same_shape(a.shape, b.shape):
            result: Any = np.where(condition, a, b)
            result._scalar = scalars[0]
            self.run.chosen += [(x._base(), x._base()._version) for x in (*arrays, result)]
            return result
        raise refusal(
            f"'{name}' is a different kind of object after the two sides of this if; give it arrays of one shape "
            "and dtype, or numbers of one type, in both",
            place=self.decision.place if self.decision is not None else None,
        )


def _is_scalar(x: Any) -> bool:
    """Return whether an object is a NumPy scalar, which cannot be written to."""
    return x._scalar if type(x) is TracedArray else issubclass(type(x), np.generic)


BUILTINS: Mapping[str, Any] = {_IF: BothSides, _LOCALS: builtins.locals, _UNBOUND: _ABSENT}
"""What the changed code calls, by name."""


def with_joined_ifs(code: CodeType) -> CodeType:
    """Return code whose ifs are joined, or the code itself if its source is not available or has no such if."""
    both = _compiled_file(code.co_filename)
    for before, after in both:
        if before == code and before.co_freevars == after.co_freevars:
            return after
    return code


@lru_cache(64)
def _compiled_file(file: str) -> list[tuple[CodeType, CodeType]]:
    """Return the code of each function of a file, as it is and with joined ifs."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
        changed = ast.fix_missing_locations(_Joining().visit(copy.deepcopy(tree)))
        plain, joined_code = (compile(t, file, "exec", dont_inherit=True) for t in (tree, changed))
    except (SyntaxError, ValueError, RecursionError):
        return []
    after = {(c.co_qualname, c.co_firstlineno): c for c in _codes(joined_code)}
    pairs = [(c, after.get((c.co_qualname, c.co_firstlineno))) for c in _codes(plain)]
    return [(c, d) for c, d in pairs if d is not None]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for c in code.co_consts:
        if isinstance(c, CodeType):
            yield from _codes(c)


class _Joining(ast.NodeTransformer):
    """Replaces each plain `if` in a function by a loop over its sides."""

    def __init__(self) -> None:
        self.depth = self.count = 0

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        self.depth += 1
        shared = {n for s in ast.walk(node) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        result = node if shared else self.generic_visit(node)
        self.depth -= 1
        return result

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        depth, self.depth = self.depth, 0
        result = self.generic_visit(node)
        self.depth = depth
        return result

    def visit_If(self, node: ast.If) -> Any:
        if (
            not self.depth
            or not _is_plain(node.test)
            or not all(map(_is_plain_statement, node.body + node.orelse))
        ):
            return self.generic_visit(node)
        simple = _without_operators(node)
        if simple is not node:
            return self.visit_If(simple)
        names = sorted({n for s in node.body + node.orelse for n in _targets(s)})
        if not names:
            return self.generic_visit(node)
        body, orelse = ([self.visit(s) for s in side] for side in (node.body, node.orelse))
        self.count += 1
        variable = f"_anylayer_{self.count}"
        unbind = "".join(f"\n    if {n} is {_UNBOUND}: del {n}" for n in names)
        text = (
            f"{variable} = {_IF}(0, {tuple(names)!r}, {_LOCALS}())\n"
            f"while {variable}.another():\n    if {variable}.side: pass\n    else: pass\n"
            f"    ({', '.join(names)},) = {variable}.results({_LOCALS}()){unbind}"
        )
        first, loop = list[Any](ast.parse(text).body)
        for n in (*ast.walk(first), *ast.walk(loop)):
            if hasattr(n, "lineno"):
                ast.copy_location(n, node)
        first.value.args[0] = node.test
        sides = loop.body[0]
        sides.body, sides.orelse = _flat(body), _flat(orelse) or [ast.copy_location(ast.Pass(), node)]
        return [first, loop]


def _flat(statements: Sequence[Any]) -> list[Any]:
    return [t for s in statements for t in (s if isinstance(s, list) else [s])]


def _targets(statement: ast.stmt) -> list[str]:
    nodes = ast.walk(statement)
    return [n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)]


def _is_plain_statement(s: ast.stmt) -> bool:
    """Return whether a statement only assigns expressions without effects to local variables."""
    if isinstance(s, ast.If):
        return _is_plain(s.test) and all(map(_is_plain_statement, s.body + s.orelse))
    if isinstance(s, ast.Assign):
        targets = [t for x in s.targets for t in (x.elts if isinstance(x, ast.Tuple) else [x])]
        return all(isinstance(t, ast.Name) for t in targets) and _is_plain(s.value)
    if isinstance(s, ast.AugAssign):
        return isinstance(s.target, ast.Name) and _is_plain(s.value)
    return isinstance(s, ast.Pass)


def _is_plain(e: ast.expr) -> bool:
    """Return whether an expression has no effect: its calls are those of NumPy and of numbers."""
    return all(
        isinstance(n, _EXPRESSIONS) and (not isinstance(n, ast.Call) or _is_known(n.func)) for n in ast.walk(e)
    )


def _is_known(f: ast.expr) -> bool:
    if isinstance(f, ast.Name):
        return f.id in _FUNCTIONS
    if not isinstance(f, ast.Attribute):
        return False
    return f.attr in _METHODS or (isinstance(f.value, ast.Name) and f.value.id in _MODULES)


def _without_operators(node: ast.If) -> ast.If:
    """Return an `if` with nested ifs in place of `and`, `or`, `not` and a chained comparison in its condition."""

    def new(test: ast.expr, body: Sequence[ast.stmt], orelse: Sequence[ast.stmt]) -> ast.If:
        return ast.copy_location(ast.If(test, copy.deepcopy(list(body)), copy.deepcopy(list(orelse))), node)

    test = node.test
    none: list[ast.stmt] = [ast.copy_location(ast.Pass(), node)]
    orelse = node.orelse or none
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return new(test.operand, orelse, node.body)
    if isinstance(test, ast.Compare) and len(test.ops) > 1:
        sides = [test.left, *test.comparators]
        pairs = [
            ast.copy_location(ast.Compare(copy.deepcopy(a), [op], [copy.deepcopy(b)]), test)
            for a, op, b in zip(sides, test.ops, sides[1:])
        ]
        test = ast.copy_location(ast.BoolOp(ast.And(), list[ast.expr](pairs)), test)
    if not isinstance(test, ast.BoolOp):
        return node
    head, *rest = test.values
    tail = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(test.op, rest), test)
    inner = new(tail, node.body, orelse)
    return new(head, [inner], orelse) if isinstance(test.op, ast.And) else new(head, node.body, [inner])


def with_reason(error: TooManyPaths, cause: TraceError) -> TooManyPaths:
    """Return the error for too many paths, with the reason why the ifs could not be joined."""
    if isinstance(cause, TooManyPaths):
        return error
    return TooManyPaths(f"{error.message}. Both sides of each if cannot be joined either: {cause}", *error.places)
