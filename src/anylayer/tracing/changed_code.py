"""Changed source code: ifs that are executed once for each side, and loops whose body is executed once.

A statement `if` whose sides only have effects that can be joined becomes a loop over both sides: see
joined_ifs.BothSides. A loop that asks something becomes a loop over the passes in which its body is recorded: see
recorded_loops.RecordedLoop. `continue`, `break` and `return` in an `if` are replaced by moving the statements that
follow into the other side. This needs the source of exactly the code that runs.
"""

from __future__ import annotations

import ast
import copy
import linecache
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from anylayer.tracing.loop_state import OWN_PREFIX

IF, LOOP, ITEM, TRUTH, COMPARE, LOCALS, UNBOUND = (
    OWN_PREFIX + n for n in ("if", "loop", "item", "truth", "compare", "locals", "unbound")
)
"""The names by which changed code calls the tracer."""
RESULT = f"{OWN_PREFIX}result"
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOOPS = (ast.For, ast.While)
_JUMPS = (ast.Return, ast.Continue, ast.Break)
_STATEMENTS = (
    *_LOOPS, *_JUMPS, ast.If, ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Pass, ast.Assert,
)  # fmt: skip
"""The statements that may stand in an `if` or a loop that is changed."""
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
_SIZES = frozenset(("size", "shape", "len"))
_RELATIONS = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
}  # fmt: skip
_MAX_COPIES = 4
"""The largest number of copies of the statements after an `if` of which both sides may go on."""


def with_changed_code(code: CodeType) -> CodeType:
    """Return the changed form of code, or the code itself if its source is not available or stays as it is."""
    for before, after in _compiled_file(code.co_filename):
        if before == code and before.co_freevars == after.co_freevars:
            return after
    return code


@lru_cache(64)
def _compiled_file(file: str) -> list[tuple[CodeType, CodeType]]:
    """Return the code of each function of a file, as it is and changed."""
    try:
        tree = ast.parse("".join(linecache.getlines(file)))
        changed = ast.fix_missing_locations(_Items().visit(_Changes().visit(copy.deepcopy(tree))))
        plain, changed_code = (compile(t, file, "exec", dont_inherit=True) for t in (tree, changed))
    except (SyntaxError, ValueError, RecursionError):
        return []
    before, after = _by_place(plain), _by_place(changed_code)
    return [
        (c, d) for key in before if len(before[key]) == len(after[key]) for c, d in zip(before[key], after[key])
    ]


def _by_place(code: CodeType) -> defaultdict[tuple[str, int], list[CodeType]]:
    """Return the code of each function by name and line, where several lambdas may stand in one line."""
    codes, waiting = defaultdict(list), [code]
    for c in waiting:
        codes[c.co_qualname, c.co_firstlineno].append(c)
        waiting += [k for k in c.co_consts if isinstance(k, CodeType)]
    return codes


def _inside(nodes: Sequence[ast.AST], stop: tuple[type, ...] = ()) -> Iterator[ast.AST]:
    """Yield the nodes of a scope, without what is inside of nodes of the types `stop` and of other scopes."""
    waiting = list(nodes)
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, (*_SCOPES, *_COMPREHENSIONS, *stop)):
            waiting.extend(ast.iter_child_nodes(node))


def _jumps(nodes: Sequence[ast.AST]) -> bool:
    """Return whether statements may leave the function, or the loop in which they stand."""
    return _returns(nodes) or any(isinstance(n, _JUMPS) for n in _inside(nodes, _LOOPS))


def _returns(nodes: Sequence[ast.AST]) -> bool:
    return any(isinstance(n, ast.Return) for n in _inside(nodes))


def _leaves(statements: Sequence[ast.stmt]) -> bool:
    """Return whether the statements after these are never reached."""
    last = statements[-1] if statements else None
    if isinstance(last, ast.If):
        return _leaves(last.body) and _leaves(last.orelse)
    return isinstance(last, (*_JUMPS, ast.Raise))


def _targets(nodes: Sequence[ast.AST]) -> list[str]:
    return sorted({n.id for n in _inside(nodes) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)})


class _CannotChange(Exception):
    """The error of statements that cannot be changed."""


class _Changes(ast.NodeTransformer):
    """Changes the ifs and the loops of each function."""

    def __init__(self) -> None:
        self.depth = self.count = self.loops = 0
        self.variables: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        shared = {n for s in ast.walk(node) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        others = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)
        if shared or any(isinstance(n, others) for n in ast.walk(node)):
            return node
        self.depth += 1
        arguments = (a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg))
        outer, self.variables = self.variables, {*_targets(node.body), *arguments}
        if any(isinstance(s, ast.If) and _jumps([s]) for s in node.body):
            try:
                body = self.without_jumps(node.body, lambda s: [_assign(RESULT, s.value or _constant(None, s), s)])
            except _CannotChange:
                pass
            else:
                first, last = node.body[0], node.body[-1]
                start = _assign(RESULT, _constant(None, first), first)
                end = ast.Return(ast.Name(RESULT, ast.Load()))
                node.body = [start, *body, ast.copy_location(end, last)]
        result = self.generic_visit(node)
        self.depth, self.variables = self.depth - 1, outer
        return result

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        depth, self.depth = self.depth, 0
        result = self.generic_visit(node)
        self.depth = depth
        return result

    # ---------------------------------------------------------------------- statements

    def without_jumps(self, statements: Sequence[ast.stmt], jump: Any, copies: int = 1) -> list[ast.stmt]:
        """Return statements without `return`, `break` and `continue`. jump: returns what takes their place."""
        result: list[ast.stmt] = []
        for k, s in enumerate(statements):
            if isinstance(s, _JUMPS):
                return [*result, *jump(s)]
            if isinstance(s, ast.Raise):
                return [*result, s]
            if not _jumps([s]):
                result.append(s)
                continue
            if not isinstance(s, ast.If):
                raise _CannotChange
            rest, sides = list(statements[k + 1 :]), [s.body, s.orelse]
            both = bool(rest) and not any(map(_leaves, sides))
            if both and copies * 2 > _MAX_COPIES:
                raise _CannotChange
            new = []
            for side in sides:
                following = [] if _leaves(side) else copy.deepcopy(rest)
                new.append(self.without_jumps([*side, *following], jump, copies * 2 if both else copies))
            changed = ast.If(s.test, new[0] or [ast.copy_location(ast.Pass(), s)], new[1])
            changed.may_return = True  # type: ignore[attr-defined]  # an attribute of ours that visit_If reads
            return [*result, ast.copy_location(changed, s)]
        return result

    def statements(self, statements: Sequence[ast.stmt]) -> list[ast.stmt]:
        return [t for s in statements for t in _as_list(self.visit(s))]

    def truth(self, test: ast.expr) -> tuple[list[ast.stmt], ast.expr]:
        """Return statements, and the expression that is the truth of `test` after them. They evaluate what Python
        evaluates, without `and`, `or`, `not` and chained comparisons.
        """
        if isinstance(test, ast.Compare) and len(test.ops) > 1 and _is_plain(test):
            sides = [test.left, *test.comparators]
            pairs = [
                ast.copy_location(ast.Compare(copy.deepcopy(a), [op], [copy.deepcopy(b)]), test)
                for a, op, b in zip(sides, test.ops, sides[1:])
            ]
            test = ast.copy_location(ast.BoolOp(ast.And(), list[ast.expr](pairs)), test)
        name = self.name()
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            before, x = self.truth(test.operand)
            call = _call(TRUTH, [x, _constant(True, test)], test)
            return [*before, _assign(name, call, test)], _load(name, test)
        if isinstance(test, ast.Compare) and len(test.ops) == 1 and type(test.ops[0]) in _RELATIONS:
            relation = _constant(_RELATIONS[type(test.ops[0])], test)
            return [], _call(COMPARE, [test.left, relation, test.comparators[0]], test)
        if not isinstance(test, ast.BoolOp):
            return [], test
        head, *rest = test.values
        before, x = self.truth(head)
        tail = rest[0] if len(rest) == 1 else ast.copy_location(ast.BoolOp(test.op, rest), test)
        more, y = self.truth(tail)
        side: list[ast.stmt] = [*more, _assign(name, _call(TRUTH, [y], test), test)]
        nothing: list[ast.stmt] = [ast.copy_location(ast.Pass(), test)]
        a, b = (side, nothing) if isinstance(test.op, ast.And) else (nothing, side)
        both = self.both_sides(_load(name, test), a, b, [name], _is_plain(tail), False, test)
        return [*before, _assign(name, _call(TRUTH, [x], test), test), *both], _load(name, test)

    def name(self) -> str:
        self.count += 1
        return f"{OWN_PREFIX}{self.count}"

    # ------------------------------------------------------------------------------ ifs

    def visit_If(self, node: ast.If) -> Any:
        sides = [*node.body, *node.orelse]
        if not self.depth or not _may_change(sides) or _jumps(sides):
            return self.generic_visit(node)
        names = _targets(sides)
        plain = _is_plain(node.test) and all(map(_is_plain_statement, sides))
        may_return = getattr(node, "may_return", False) and RESULT in names
        before, test = self.truth(node.test)
        body, orelse = self.statements(node.body), self.statements(node.orelse)
        return [*before, *self.both_sides(test, body, orelse, names, plain, may_return, node)]

    def both_sides(
        self,
        test: ast.expr,
        body: Sequence[ast.stmt],
        orelse: Sequence[ast.stmt],
        names: Sequence[str],
        plain: bool,
        may_return: bool,
        place: ast.AST,
    ) -> list[ast.stmt]:
        """Return the statements that execute both sides of an `if`."""
        variable = self.name()
        lists = sorted({_list_of_append(n) for n in _inside([*body, *orelse])} & self.variables - {*names})
        nothing: list[ast.stmt] = [ast.copy_location(ast.Pass(), place)]
        side = _parse(f"{variable}.item()", place)[0].value
        sides = ast.copy_location(ast.If(side, list(body) or nothing, list(orelse)), place)
        return _passes(variable, IF, test, names, lists, f"{plain}, {may_return}", [sides], "", place)

    def visit_Assign(self, node: ast.Assign) -> Any:
        """Change `x = a if c else b`."""
        if not self.depth or not isinstance(node.value, ast.IfExp):
            return node
        x = node.value
        name = self.name()
        sides = [_assign(name, v, node) for v in (x.body, x.orelse)]
        node.value = _load(name, node)
        changed = ast.copy_location(ast.If(x.test, [sides[0]], [sides[1]]), node)
        return [*_as_list(self.visit(changed)), node]

    # ---------------------------------------------------------------------------- loops

    def visit_For(self, node: ast.For) -> Any:
        asks = bool(self.loops) or any(isinstance(n, (ast.If, ast.While, ast.IfExp)) for n in _inside(node.body))
        targets = all(isinstance(n, (ast.Name, ast.Tuple, ast.expr_context)) for n in ast.walk(node.target))
        return self.loop(node, node.iter, asks) if targets else self.generic_visit(node)

    def visit_While(self, node: ast.While) -> Any:
        words = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(node.test)}
        return self.generic_visit(node) if words & _SIZES else self.loop(node, None)

    def loop(self, node: Any, iterable: ast.expr | None, asks: bool = True) -> Any:
        """Return the statements that record a loop, or the loop itself. asks: as in recorded_loops.loop."""
        if not self.depth or node.orelse or not _may_change(node.body) or _returns(node.body):
            return self.generic_visit(node)
        loop, go = self.name(), self.name()

        def end(s: ast.stmt) -> list[ast.stmt]:
            return [_assign(go, _constant(False, s), s)] if isinstance(s, ast.Break) else []

        body = node.body
        if iterable is None and not (isinstance(node.test, ast.Constant) and node.test.value):
            stop: list[ast.stmt] = [ast.copy_location(ast.Break(), node)]
            body = [ast.copy_location(ast.If(node.test, body, stop), node)]
        try:
            body = self.without_jumps(body, end)
        except _CannotChange:
            return self.generic_visit(node)
        targets = [] if iterable is None else _targets([node.target])
        names = sorted({*_targets(body), *targets} - {go})
        appended = {_list_of_append(n) for n in _inside(body)} & self.variables - {*names}
        stored = {_list_of_store(n) for n in _inside(body)} & self.variables - {*names, *appended}
        lists = [*sorted(appended), *sorted(stored)]
        first = _constant(None, node) if iterable is None else _iterable_parts(iterable)
        start = _parse(f"{go} = True\nx = {loop}.item()", node)[: 1 if iterable is None else 2]
        if iterable is not None:
            start[1].targets = [node.target]
        self.loops += asks
        body = [*start, *self.statements(body)]
        self.loops -= asks
        return _passes(loop, LOOP, first, names, lists, f"{len(appended)}, {asks}", body, f", {go}", node)


class _Items(ast.NodeTransformer):
    """Changes `x[i]`, so that `x` may be a list and `i` depend on data."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or isinstance(node.slice, (ast.Slice, ast.Tuple, ast.Constant)):
            return node
        return _call(ITEM, [node.value, node.slice], node)


def _list_of_append(n: ast.AST) -> str:
    """Return the variable x of a call x.append(...), or ""."""
    if isinstance(n, ast.Call) and isinstance(n.func, ast.Attribute) and n.func.attr == "append":
        return getattr(n.func.value, "id", "")
    return ""


def _list_of_store(n: ast.AST) -> str:
    """Return the variable x of a target x[i], or ""."""
    return getattr(n.value, "id", "") if isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store) else ""


def _unpack(names: Sequence[str], value: str, indent: str = "    ") -> str:
    """Return the text that gives variables their values, and deletes those that are not bound."""
    unbind = "".join(f"\n{indent}if {n} is {UNBOUND}: del {n}" for n in names)
    return f"({', '.join(names)},) = {value}{unbind}" if names else value


def _passes(
    name: str,
    function: str,
    first: ast.expr,
    names: Sequence[str],
    lists: Sequence[str],
    arguments: str,
    body: Sequence[ast.stmt],
    end: str,
    place: ast.AST,
) -> list[ast.stmt]:
    """Return the statements that execute a body in passes: see recorded_loops.PlainLoop.

    function: called with `first`, the names of the variables and lists, the variables, and `arguments`. end:
    further arguments of the method `end`.
    """
    unpacked = [*names, *lists]
    start, loop, *results = _parse(
        f"{name} = {function}(0, {tuple(names)!r}, {tuple(lists)!r}, {LOCALS}(), {arguments})\n"
        f"while {name}.another():\n    {_unpack(unpacked, f'{name}.states({LOCALS}())')}\n"
        f"    {name}.end({LOCALS}(){end})\n{_unpack(unpacked, f'{name}.results({LOCALS}())', '')}",
        place,
    )
    start.value.args[0] = first
    loop.body[-1:] = [*body, loop.body[-1]]
    return [start, loop, *results]


def _iterable_parts(iterable: ast.expr) -> ast.expr:
    """Return a tuple of a function, without calling it, and its arguments, or of None and any other iterable."""
    parts = [_constant(None, iterable), iterable]
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and not iterable.keywords:
        is_plain = not any(isinstance(x, ast.Starred) for x in iterable.args)
        if is_plain and iterable.func.id in ("range", "enumerate", "reversed", "zip"):
            parts = [iterable.func, *map(_iterable_parts, iterable.args)]
    return ast.copy_location(ast.Tuple(parts, ast.Load()), iterable)


def _parse(text: str, place: ast.AST) -> list[Any]:
    statements = list[Any](ast.parse(text).body)
    for s in statements:
        for n in ast.walk(s):
            if hasattr(n, "lineno"):
                ast.copy_location(n, place)
    return statements


def _as_list(x: Any) -> list[Any]:
    return x if isinstance(x, list) else [x]


def _constant(value: Any, place: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Constant(value), place)


def _load(name: str, place: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Name(name, ast.Load()), place)


def _assign(name: str, value: ast.expr, place: ast.AST) -> ast.stmt:
    target = ast.copy_location(ast.Name(name, ast.Store()), place)
    return ast.copy_location(ast.Assign([target], value), place)


def _call(name: str, args: list[ast.expr], place: ast.AST) -> ast.expr:
    return ast.copy_location(ast.Call(_load(name, place), args, []), place)


# ---------------------------------------------------------------- what may be changed


def _may_change(statements: Sequence[ast.stmt]) -> bool:
    """Return whether statements may be executed for each side, or recorded as the body of a loop."""
    return all(isinstance(n, _STATEMENTS) for n in _inside(statements) if isinstance(n, ast.stmt))


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
