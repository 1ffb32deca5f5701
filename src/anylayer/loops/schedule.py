"""Assign scalars that are used more than once, or that are loop-invariant, to named variables.

A Let is placed in the outermost loop body in which all operands of its scalar are available.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from anylayer.loops.ir import Branch, Comment, If, Let, Loop, LoopProgram, Repeat, Scalar, Statement, Store, behind

_Path = list[tuple[list[Any], Any]]
"""The bodies around a statement, outermost first, each with the statement of it that leads inside."""


def scheduled(program: LoopProgram) -> list[Statement]:
    """Return the statements of a program with a Let for each scalar that needs a variable."""
    return _Scheduler(program).all(program.body)


class _Scheduler:
    """The state of `scheduled`. `count` is the number of names so far. `uses` counts how often each scalar of one
    top-level statement is used, `depths` are the depths at which its scalars are computed.
    """

    def __init__(self, program: LoopProgram) -> None:
        self.program = program
        self.data = set(program.data.values())
        self.count = 0
        self.uses: dict[Scalar, int] = {}
        self.bodies: dict[str, int] = {}
        self.depths: dict[Scalar, int] = {}
        self.before: dict[tuple[int, Any], list[Let]] = {}
        self.named: set[tuple[int, Scalar]] = set()
        self.top: set[Scalar] = set()
        self.pinned: dict[Scalar, bool] = {}

    def all(self, body: Sequence[Statement]) -> list[Statement]:
        """Return top-level statements, or those of a body that is a scope of its own, with their lets."""
        statements: list[Statement] = []
        for s in body:
            if isinstance(s, Comment):
                statements.append(s)
            elif isinstance(s, (Branch, Repeat)):
                statements += self.one(replace(s, body=[]))
                outer, self.top = self.top, {*self.top}
                statements[-1] = replace(s, body=self.all(s.body))
                self.top = outer
            else:
                statements += self.one(s)
        return statements

    def one(self, statement: Statement) -> list[Statement]:
        """Return a top-level statement with its lets."""
        body: list[Any] = [statement]
        self.uses, self.bodies, self.depths, self.before, self.named = {}, {}, {}, {}, set()
        leaves = list(_leaves(body, []))
        seen: set[Scalar] = set()
        for leaf, path in leaves:
            for depth, (_, inner) in enumerate(path):
                if isinstance(inner, Loop):
                    self.bodies.update(dict.fromkeys(inner.variables, depth + 1))
            for x in self.roots(leaf):
                self.count_uses(x, seen)
        for leaf, path in leaves:
            for x in self.roots(leaf):
                self.visit(x, path, len(path) - 1, x in self.data)
        return self.rebuilt(body)

    def roots(self, leaf: Any) -> list[Scalar]:
        """Return the scalars that a statement itself uses."""
        places = behind(leaf.offset.symbols, self.program.data) if isinstance(leaf, Store) else ()
        scalars = [leaf.limit] if isinstance(leaf, Repeat) else leaf.scalars  # its condition may change
        return [*scalars, *places]

    def parts(self, x: Scalar) -> list[Scalar]:
        return [*x.args, *behind(x.symbols, self.program.data)]

    def count_uses(self, x: Scalar, seen: set[Scalar]) -> None:
        self.uses[x] = self.uses.get(x, 0) + 1
        if x not in seen:
            seen.add(x)
            for part in self.parts(x):
                self.count_uses(part, seen)

    def reads_local(self, x: Scalar) -> bool:
        reads = self.pinned.get(x)
        if reads is None:
            reads = x.op == "local" or any(map(self.reads_local, self.parts(x)))
            self.pinned[x] = reads
        return reads

    def depth(self, x: Scalar, path: _Path) -> int:
        """Return the depth of the outermost loop body in which a scalar can be computed."""
        if self.reads_local(x):
            return len(path) - 1
        if x not in self.depths:
            bodies = [self.bodies.get(s, 0) for s in x.symbols]
            self.depths[x] = max([0, *bodies, *(self.depth(part, path) for part in self.parts(x))])
        return self.depths[x]

    def visit(self, x: Scalar, path: _Path, at: int, is_index: bool = False) -> None:
        """Add a Let for a scalar that is used at depth `at`, and for its operands, where they need one."""
        if x.op in ("const", "local", "argument") and not is_index:
            return
        depth = self.depth(x, path)
        wants = x.op != "index" and (self.uses[x] > 1 or depth < at)
        inner = at
        if wants or is_index:
            body, statement = path[depth]
            if (id(body), x) in self.named or (depth == 0 and x in self.top):
                return
            if depth == 0:
                self.top.add(x)
            inner = depth
            self.named.add((id(body), x))
        for part in x.args:
            self.visit(part, path, inner)
        for part in behind(x.symbols, self.program.data):
            self.visit(part, path, inner, True)
        if wants or is_index:
            self.count += 1
            self.before.setdefault((id(body), statement), []).append(
                Let(f"{'at' if is_index else 't'}{self.count}", x)
            )

    def rebuilt(self, body: list[Any]) -> list[Statement]:
        statements: list[Statement] = []
        for s in body:
            statements.extend(self.before.get((id(body), s), ()))
            if isinstance(s, Loop):
                s = Loop(s.var, s.extent, self.rebuilt(s.body), s.parallel, s.more)
            elif isinstance(s, If):
                s = If(s.condition, self.rebuilt(s.body))
            statements.append(s)
        return statements


def _leaves(body: list[Any], path: _Path) -> Iterator[tuple[Any, _Path]]:
    for s in body:
        here = [*path, (body, s)]
        yield s, here
        if isinstance(s, (If, Loop)):
            yield from _leaves(s.body, here)
