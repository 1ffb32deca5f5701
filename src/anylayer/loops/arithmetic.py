"""Print integer expressions of loop variables and sizes as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anylayer.graph.expressions import Atom, Expression
from anylayer.graph.reals import Real
from anylayer.loops.ir import LoopProgram, Scalar
from anylayer.loops.space import Space


class Arithmetic:
    """Expressions as text with C syntax.

    names: maps symbols (sizes, loop variables, indices that are read from data) to the names of variables.
    forms: what a language spells in its own way, with "{}" for each operand: "min", "max" and the floor "//" of a
    quotient of two integers, a "double" made of an integer, an "integer" made of a whole double, a "call" of a
    function of doubles, an "argument" of such a call, and the variable of a "symbol". functions: the language's
    own names of functions of doubles.
    """

    def __init__(
        self,
        program: LoopProgram,
        names: dict[str, str],
        forms: Mapping[str, str],
        functions: Mapping[str, str] | None = None,
    ) -> None:
        self.names, self.forms, self.functions = names, forms, functions or {}
        self.space = Space({})
        self.space.extents = dict(program.extents)
        self._symbols: dict[Scalar, str] = {x: s for s, x in program.data.items()}

    def spell(self, form: str, *operands: str) -> str:
        """Return one of the forms with these operands."""
        return self.forms[form].format(*operands)

    def call(self, function: str, *x: str) -> str:
        """Return the call of a function of doubles."""
        arguments = ", ".join(self.spell("argument", one) for one in x)
        return self.spell("call", self.functions.get(function, function), arguments)

    def bind(self, x: Scalar, name: str) -> None:
        """Record the variable that holds a scalar, for index expressions that refer to the scalar."""
        if x in self._symbols:
            self.names[self._symbols[x]] = name

    def text(self, e: Expression) -> str:
        """Return an expression as text, with common sizes factored out."""
        if e.constant is not None:
            return str(e.constant)
        return self.factored(e)

    def factored(self, e: Expression) -> str:
        counts: dict[Atom, int] = {}
        for monomial in e.terms:
            for atom, _ in monomial:
                counts[atom] = counts.get(atom, 0) + 1
        if len(e.terms) > 1 and counts:
            best = max(counts, key=lambda a: (counts[a], not self.is_variable(a), a.text))
            if counts[best] > 1:
                return self.split(e, best)
        parts = [(self.product(m, abs(c)), c) for m, c in sorted(e.terms.items(), key=lambda t: t[1] < 0)]
        text = ("-" if parts[0][1] < 0 else "") + parts[0][0]
        for part, c in parts[1:]:
            text += f" {'-' if c < 0 else '+'} {part}"
        return text

    def is_variable(self, atom: Atom) -> bool:
        return bool(atom.function) or atom.name in self.space.extents

    def split(self, e: Expression, atom: Atom) -> str:
        """Return an expression as (quotient) * atom + rest."""
        whole: dict[Any, int] = {}
        rest: dict[Any, int] = {}
        for monomial, c in e.terms.items():
            powers = dict(monomial)
            if atom in powers:
                powers[atom] -= 1
                whole[tuple((a, p) for a, p in powers.items() if p)] = c
            else:
                rest[monomial] = c
        inner = Expression(whole)
        left = self.text(inner)
        left = left if len(inner.terms) == 1 and not left.startswith("-") else f"({left})"
        text = f"{left} * {self.atom(atom)}"
        if not rest:
            return text
        more = self.text(Expression(rest))
        return f"{text} - {more[1:]}" if more.startswith("-") and len(rest) == 1 else f"{text} + {more}"

    def product(self, monomial: Any, factor: int) -> str:
        parts = [self.atom(a) for a, p in monomial for _ in range(p)]
        if factor != 1 or not parts:
            parts.append(str(factor)) if parts else parts.insert(0, str(factor))
        return " * ".join(parts)

    def atom(self, atom: Atom) -> str:
        if not atom.function:
            return self.spell("symbol", self.names[atom.name])
        if atom.function == "//":
            a, b = atom.arguments
            if self.space.not_negative(a) and self.space.not_negative(b):
                return f"({self.enclosed(a)} / {self.enclosed(b)})"
            return self.spell("//", self.text(a), self.text(b))
        if atom.function in ("min", "max"):
            text = self.text(atom.arguments[0])
            for argument in atom.arguments[1:]:
                text = self.spell(atom.function, text, self.text(argument))
            return text
        function = "nearbyint" if atom.function == "round" else atom.function
        return self.spell("integer", self.call(function, self.real(atom.arguments[0])))

    def enclosed(self, e: Expression) -> str:
        text = self.text(e)
        return text if text.isalnum() else f"({text})"

    def real(self, x: Real) -> str:
        """Return a double that is computed from sizes."""
        if x.function == "float":
            inner = x.arguments[0]
            return self.spell("double", self.text(inner)) if isinstance(inner, Expression) else repr(float(inner))
        parts = [self.real(a) for a in x.arguments]
        if x.function == "**":
            return self.call("pow", *parts)
        if len(parts) == 1:
            return self.call(x.function, *parts)
        return f"({parts[0]} {x.function} {parts[1]})"

    def condition(self, guard: Any) -> str:
        """Return a guard as a condition."""
        sides = [self.real(s) if isinstance(s, Real) else self.text(s) for s in (guard.left, guard.right)]
        return f"{sides[0]} {guard.relation} {sides[1]}"
