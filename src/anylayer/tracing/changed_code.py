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
from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any

from anylayer.tracing.loop_state import OWN_PREFIX
from anylayer.tracing.syntax import (
    IN_ORDER,
    JUMPS,
    SCOPES,
    assigned_names,
    inside,
    is_name,
    is_plain,
    is_plain_statement,
    jumps,
    leaves,
    list_of_append,
    list_of_store,
    may_change,
    returns,
)

IF, LOOP, ITEM, IS, IN, TRUTH, COMPARE, LOCALS, UNBOUND = (
    OWN_PREFIX + n for n in ("if", "loop", "item", "is", "in", "truth", "compare", "locals", "unbound")
)
"""The names by which changed code calls the tracer."""
RESULT = f"{OWN_PREFIX}result"
LIST_PREFIX = "_list_"
"""How the names of lists begin that changed code fills in place of comprehensions. They are part of the state that
must stay as it is: see loop_state."""
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


class _CannotChange(Exception):
    """The error of statements that cannot be changed."""


class _Changes(ast.NodeTransformer):
    """Changes the ifs and the loops of each function."""

    def __init__(self) -> None:
        self.depth = self.count = self.loops = 0
        self.variables: set[str] = set()

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        shared = {n for s in ast.walk(node) if isinstance(s, (ast.Global, ast.Nonlocal)) for n in s.names}
        others = (ast.Yield, ast.YieldFrom, ast.Await, ast.NamedExpr)
        if shared or any(isinstance(n, others) for n in ast.walk(node)):
            return node
        self.depth += 1
        arguments = (a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg))
        outer, self.variables = self.variables, {*assigned_names(node.body), *arguments}
        if any(isinstance(s, ast.If) and jumps([s]) for s in node.body):
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

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        depth, self.depth = self.depth, 0
        result = self.generic_visit(node)
        self.depth = depth
        return result

    # ---------------------------------------------------------------------- statements

    def without_jumps(self, statements: Sequence[ast.stmt], jump: Any, copies: int = 1) -> list[ast.stmt]:
        """Return statements without `return`, `break` and `continue`. jump: returns what takes their place."""
        result: list[ast.stmt] = []
        for k, s in enumerate(statements):
            if isinstance(s, JUMPS):
                return [*result, *jump(s)]
            if isinstance(s, ast.Raise):
                return [*result, s]
            if not jumps([s]):
                result.append(s)
                continue
            if not isinstance(s, ast.If):
                raise _CannotChange
            rest, sides = list(statements[k + 1 :]), [s.body, s.orelse]
            both = bool(rest) and not any(map(leaves, sides))
            if both and copies * 2 > _MAX_COPIES:
                raise _CannotChange
            new = []
            for side in sides:
                following = [] if leaves(side) else copy.deepcopy(rest)
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
        if isinstance(test, ast.Compare) and len(test.ops) > 1 and is_plain(test):
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
        both = self.both_sides(_load(name, test), a, b, [name], is_plain(tail), False, test)
        return [*before, _assign(name, _call(TRUTH, [x], test), test), *both], _load(name, test)

    def name(self) -> str:
        self.count += 1
        return f"{OWN_PREFIX}{self.count}"

    # ------------------------------------------------------------------------------ ifs

    def visit_If(self, node: ast.If) -> Any:
        sides = [*node.body, *node.orelse]
        if not self.depth or not may_change(sides) or jumps(sides):
            return self.generic_visit(node)
        names = assigned_names(sides)
        plain = is_plain(node.test) and all(map(is_plain_statement, sides))
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
        lists = sorted({list_of_append(n) for n in inside([*body, *orelse])} & self.variables - {*names})
        nothing: list[ast.stmt] = [ast.copy_location(ast.Pass(), place)]
        side = _parse(f"{variable}.item()", place)[0].value
        sides = ast.copy_location(ast.If(side, list(body) or nothing, list(orelse)), place)
        return _passes(variable, IF, test, names, lists, f"{plain}, {may_return}", [sides], "", place)

    # ---------------------------------------------------------------------- expressions

    def values_before(self, node: Any) -> list[ast.stmt]:
        """Change `a if c else b` and `[f(x) for x in y]` in the value of a statement: statements before it compute
        them, where no other expression then sees another state than before.
        """
        before: list[ast.stmt] = []
        if self.depth and node.value is not None:
            first: list[ast.AST] = [node.target] if isinstance(node, ast.AugAssign) else []
            node.value = self.value_after(before, node.value, first)
        return [*before, node]

    visit_Assign = visit_AugAssign = visit_AnnAssign = visit_Expr = visit_Return = values_before

    def value_after(self, before: list[ast.stmt], e: ast.AST, evaluated: list[ast.AST]) -> ast.AST:
        """Return an expression for the value of `e` after the statements `before`, to which this appends.

        evaluated: what Python evaluates before `e`, to which this appends what it evaluates for `e`.
        """
        if isinstance(e, (ast.IfExp, ast.ListComp)) and self.may_precede(e, evaluated):
            name = self.name()
            if isinstance(e, ast.ListComp):
                name = name.replace(OWN_PREFIX, LIST_PREFIX)
                new = self.list_statements(e, name)
            else:
                sides = [_assign(name, v, e) for v in (e.body, e.orelse)]
                new = [ast.If(e.test, sides[:1], sides[1:])]
            before += self.statements([ast.fix_missing_locations(ast.copy_location(s, e)) for s in new])
            return _load(name, e)
        if isinstance(e, ast.cmpop):
            return e
        if isinstance(e, IN_ORDER) and not (isinstance(e, ast.Compare) and len(e.ops) > 1):
            for field, child in ast.iter_fields(e):
                if isinstance(child, list):
                    child[:] = [self.value_after(before, x, evaluated) for x in child]
                elif isinstance(child, (ast.expr, ast.keyword)) and not (field == "func" and is_name(child)):
                    setattr(e, field, self.value_after(before, child, evaluated))
        evaluated.append(e)
        return e

    def may_precede(self, e: ast.expr, evaluated: Sequence[ast.AST]) -> bool:
        """Return whether an expression may be evaluated before these."""
        if isinstance(e, ast.ListComp) and any(isinstance(n, SCOPES) for n in ast.walk(e)):
            return False
        fixed = all(isinstance(x, ast.Constant) or getattr(x, "id", "") in self.variables for x in evaluated)
        return fixed or all(map(is_plain, [e, *evaluated]))

    def list_statements(self, e: ast.ListComp, name: str) -> list[ast.stmt]:
        """Return the statements that fill the list `name` as a comprehension does."""
        self.variables.add(name)
        append = ast.Attribute(_load(name, e), "append", ast.Load())
        body: ast.stmt = ast.Expr(ast.Call(append, [e.elt], []))
        for part in reversed(e.generators):
            for test in reversed(part.ifs):
                body = ast.If(test, [body], [])
            renaming = _Renaming({n: self.name() for n in assigned_names([part.target])})
            body = ast.For(renaming.visit(part.target), part.iter, [renaming.visit(body)], [])
        return [_assign(name, ast.List([], ast.Load()), e), body]

    # ---------------------------------------------------------------------------- loops

    def visit_For(self, node: ast.For) -> Any:
        asks = bool(self.loops) or any(isinstance(n, (ast.If, ast.While, ast.IfExp)) for n in inside(node.body))
        targets = all(isinstance(n, (ast.Name, ast.Tuple, ast.expr_context)) for n in ast.walk(node.target))
        return self.loop(node, node.iter, asks) if targets else self.generic_visit(node)

    def visit_While(self, node: ast.While) -> Any:
        words = {getattr(n, "attr", getattr(n, "id", "")) for n in ast.walk(node.test)}
        return self.generic_visit(node) if words & _SIZES else self.loop(node, None)

    def loop(self, node: Any, iterable: ast.expr | None, asks: bool = True) -> Any:
        """Return the statements that record a loop, or the loop itself. asks: as in recorded_loops.loop."""
        if not self.depth or node.orelse or not may_change(node.body) or returns(node.body):
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
        targets = [] if iterable is None else assigned_names([node.target])
        names = sorted({*assigned_names(body), *targets} - {go})
        appended = {list_of_append(n) for n in inside(body)} & self.variables - {*names}
        stored = {list_of_store(n) for n in inside(body)} & self.variables - {*names, *appended}
        lists = [*sorted(appended), *sorted(stored)]
        first = _constant(None, node) if iterable is None else _iterable_parts(iterable)
        start = _parse(f"{go} = True\nx = {loop}.item()", node)[: 1 if iterable is None else 2]
        if iterable is not None:
            start[1].targets = [node.target]
        self.loops += asks
        body = [*start, *self.statements(body)]
        self.loops -= asks
        return _passes(loop, LOOP, first, names, lists, f"{len(appended)}, {asks}", body, f", {go}", node)


class _Renaming(ast.NodeTransformer):
    """Renames variables."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.names = names

    def visit_Name(self, node: ast.Name) -> ast.Name:
        node.id = self.names.get(node.id, node.id)
        return node


class _Items(ast.NodeTransformer):
    """Changes `x[i]`, so that `x` may be a list and `i` depend on data, `x is y` for objects in lists, and
    `x in y` for sets.
    """

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        self.generic_visit(node)
        sides, op = [node.left, *node.comparators], node.ops[0]
        function = IN if isinstance(op, (ast.In, ast.NotIn)) else IS if isinstance(op, (ast.Is, ast.IsNot)) else ""
        is_plain = any(isinstance(x, ast.Constant) or getattr(x, "id", "").startswith(OWN_PREFIX) for x in sides)
        if len(node.ops) > 1 or not function or (function == IS and is_plain):
            return node
        return _call(function, [*sides, _constant(isinstance(op, (ast.IsNot, ast.NotIn)), node)], node)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        self.generic_visit(node)
        if not isinstance(node.ctx, ast.Load) or isinstance(node.slice, (ast.Slice, ast.Tuple, ast.Constant)):
            return node
        return _call(ITEM, [node.value, node.slice], node)


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
    """Return a tuple of a function, without calling it, and its arguments, or of None and any other iterable. Of
    `*x`, it is a tuple for each element of x.
    """
    if isinstance(iterable, ast.Starred):
        each = _parse(f"*((None, {OWN_PREFIX}x) for {OWN_PREFIX}x in y),", iterable)[0].value.elts[0]
        each.value.generators[0].iter = iterable.value
        iterable.value = each.value
        return iterable
    parts = [_constant(None, iterable), iterable]
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and not iterable.keywords:
        has_all = any(isinstance(x, ast.Starred) for x in iterable.args)
        if iterable.func.id == "zip" or (not has_all and iterable.func.id in ("range", "enumerate", "reversed")):
            parts = [iterable.func, *(_iterable_parts(x) for x in iterable.args)]
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
