"""The ranges of loop variables, and integer division that uses them."""

from __future__ import annotations

from collections.abc import Sequence

from anylayer.graph.expressions import Atom, Expression, Ranges, constant, of_atom, remainder_in, symbol
from anylayer.graph.guards import Guard, SymbolicTrace
from anylayer.loops.ir import extremum


class Space:
    """The variables of loops with their extents. A variable runs from 0 to extent - 1.

    ranges: the least and the largest value of each open size. `known` has what is known about the open sizes.
    """

    def __init__(self, ranges: Ranges) -> None:
        self.known = SymbolicTrace(dict(ranges))
        self.extents: dict[str, Expression] = {}

    def assume(self, guards: Sequence[Guard]) -> None:
        """Record conditions on the open sizes, which the caller checks."""
        for guard in guards:
            self.known.assume(guard)

    def variable(self, name: str, extent: Expression) -> Expression:
        """Add a loop variable, and return it as an expression: the constant 0 if its extent is 1."""
        self.extents[name] = extent
        return constant(0) if extent.constant == 1 else symbol(name)

    def bound(self, e: Expression, above: bool) -> Expression | None:
        """Return an upper bound (`above`) or a lower bound of an expression without loop variables, or None."""
        remainder = remainder_in(e)
        if remainder is not None:
            _, size, rest = remainder
            other = self.bound(rest, above)
            return None if other is None else other + (size - constant(1) if above else constant(0))
        for monomial, factor in e.terms.items():  # an extent may be computed from outer variables
            name = monomial[0][0].name if len(monomial) == 1 and monomial[0][1] == 1 else ""
            extent = self.extents.get(name)
            if extent is not None and not extent.symbols.isdisjoint(self.extents):
                end = extent - constant(1) if above == (factor > 0) else constant(0)
                return self.bound(e + constant(factor) * (end - symbol(name)), above)
        total = constant(0)
        for monomial, factor in e.terms.items():
            term = constant(factor)
            for atom, power in monomial:
                one = self._atom_bound(atom, above == (factor > 0))
                if one is None or not self.certain(one):
                    return None
                for _ in range(power):
                    term = term * one
            total = total + term
        return total

    def _atom_bound(self, atom: Atom, above: bool) -> Expression | None:
        """Return a bound of a variable or a function."""
        if not atom.function:
            extent = self.extents.get(atom.name)
            if extent is None:
                return of_atom(atom)
            if not above:
                return constant(0)
            return extent - constant(1) if extent.symbols.isdisjoint(self.extents) else None
        if not any(s in self.extents for s in of_atom(atom).symbols):
            return of_atom(atom)
        if atom.function == "//":
            a, b = atom.arguments
            if any(s in self.extents for s in b.symbols):
                return None
            inner = self.bound(a, above)
            return None if inner is None else inner // b
        if atom.function in ("min", "max"):
            parts = [self.bound(a, above) for a in atom.arguments]
            known = [p for p in parts if p is not None]
            if (atom.function == "min") == above and known:
                return known[0] if len(known) == 1 else extremum(atom.function, *known)
            return extremum(atom.function, *known) if len(known) == len(parts) else None
        return None

    def certain(self, e: Expression | None) -> bool:
        """Return whether an expression of open sizes is certainly 0 or more."""
        return e is not None and self.known.not_negative(e)

    def equal(self, a: Expression, b: Expression) -> bool:
        """Return whether two expressions of open sizes are certainly equal."""
        return a == b or (self.certain(a - b) and self.certain(b - a))

    def not_negative(self, e: Expression) -> bool:
        """Return whether an expression is certainly 0 or more."""
        return self.certain(self.bound(e, False))

    def below(self, e: Expression, size: Expression) -> bool:
        """Return whether an expression is certainly less than a size."""
        top = self.bound(e, True)
        return top is not None and self.certain(size - constant(1) - top)

    def quotient(self, e: Expression, size: Expression) -> Expression:
        """Return the floor of e / size."""
        if size.constant == 1:
            return e
        terms = dict((e // size).terms)
        for monomial in list(terms):
            for atom, _ in monomial:
                quotient = atom.function == "//" and self.not_negative(atom.arguments[0])
                if quotient and self.below(*atom.arguments):  # it is certainly 0
                    terms.pop(monomial, None)
        return Expression(terms)

    def remainder(self, e: Expression, size: Expression) -> Expression:
        """Return e % size."""
        return constant(0) if size.constant == 1 else e - size * self.quotient(e, size)

    def clamped(self, e: Expression, size: Expression) -> Expression:
        """Return an index clamped to 0 ... size - 1; unchanged if it is certainly in this range."""
        if not self.not_negative(e):
            e = extremum("max", e, constant(0))
        return e if self.below(e, size) else extremum("min", e, size - constant(1))
