"""Exact integer expressions of symbolic sizes, and the intervals that contain their values.

An expression is a polynomial with integer coefficients. Its variables are symbols (`H`) and the atoms floor
division, maximum and minimum of expressions, and rounded real numbers. `a % b` is written as `a - b * (a // b)`.
The terms have one order, so that equal polynomials are equal objects: `(H + 1) * 2 == 2 * H + 2`. Compare the
symbolic dimensions of jax.export, which use the same form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any

from anylayer.network import MAX_VALUES

_CACHED = 4096
"""The number of symbols and of numbers whose expressions are kept."""
_FUNCTIONS: dict[str, Callable[..., int]] = {
    "//": lambda a, b: a // b,
    "max": max,
    "min": min,
    "floor": math.floor,
    "ceil": math.ceil,
    "round": round,
}

Monomial = tuple[tuple["Atom", int], ...]
"""The variables of a term, each with its exponent. The constant term is ()."""
Bounds = tuple[float, float]
Ranges = Mapping[str, tuple[int, int]]
"""The least and the largest value of each symbol. A symbol that is not listed is at least 1."""


class Atom:
    """A variable of a polynomial: a symbol, a function of two expressions, or a rounded real number.

    function: "//", "max", "min"; "floor", "ceil" or "round", whose argument is a Real; or "" for a symbol.
    """

    __slots__ = ("__dict__", "arguments", "function", "name")

    def __init__(self, name: str, function: str = "", arguments: tuple[Any, ...] = ()) -> None:
        self.name = name
        self.function = function
        self.arguments = arguments

    @cached_property
    def text(self) -> str:
        if not self.function:
            return self.name
        if len(self.arguments) == 1:
            return f"{self.function}({self.arguments[0]})"
        if self.function != "//":
            return f"{self.function}({', '.join(map(str, self.arguments))})"
        a, b = self.arguments
        return f"({_operand(a)}//{_operand(b)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text

    def value(self, symbols: Mapping[str, int]) -> int:
        if not self.function:
            return symbols[self.name]
        return _FUNCTIONS[self.function](*(e.value(symbols) for e in self.arguments))


def _operand(e: Expression) -> str:
    simple = e.constant is not None and e.constant >= 0
    return e.text if simple or _only_atom(e) is not None else f"({e.text})"


class Expression:
    """A polynomial. `terms` maps each monomial to its coefficient, which is not 0."""

    __slots__ = ("__dict__", "terms")

    def __init__(self, terms: Mapping[Monomial, int]) -> None:
        nonzero = {m: c for m, c in terms.items() if c}
        if len(nonzero) > 1:
            order = sorted(nonzero, key=lambda m: (-sum(p for _, p in m), _monomial_text(m)))
            nonzero = {m: nonzero[m] for m in order}
        self.terms = nonzero

    @cached_property
    def text(self) -> str:
        parts: list[str] = []
        for monomial, c in self.terms.items():
            name = _monomial_text(monomial)
            size = str(abs(c)) if not name else name if abs(c) == 1 else f"{abs(c)}*{name}"
            parts.append(("-" if c < 0 else "") + size if not parts else (" - " if c < 0 else " + ") + size)
        return "".join(parts) or "0"

    @property
    def constant(self) -> int | None:
        """The value of an expression without symbols, else None."""
        if not self.terms:
            return 0
        return self.terms[()] if len(self.terms) == 1 and () in self.terms else None

    @cached_property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols in this expression."""
        names: set[str] = set()
        for monomial in self.terms:
            for atom, _ in monomial:
                names |= (
                    {atom.name}
                    if not atom.function
                    else frozenset[str]().union(*(a.symbols for a in atom.arguments))
                )
        return frozenset(names)

    def __str__(self) -> str:
        """Return the expression as Python writes it: "H//2 + 1"."""
        atom = _only_atom(self)
        return self.text[1:-1] if atom is not None and atom.function == "//" else self.text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def value(self, symbols: Mapping[str, int]) -> int:
        """Return the value for these values of the symbols. Raises ZeroDivisionError, KeyError."""
        return sum(c * math.prod(a.value(symbols) ** p for a, p in m) for m, c in self.terms.items())

    def __add__(self, other: Expression, times: int = 1) -> Expression:
        terms = dict(self.terms)
        for m, c in other.terms.items():
            terms[m] = terms.get(m, 0) + c * times
        return Expression(terms)

    def __neg__(self) -> Expression:
        return Expression({m: -c for m, c in self.terms.items()})

    def __sub__(self, other: Expression) -> Expression:
        return self.__add__(other, -1)

    def __mul__(self, other: Expression) -> Expression:
        terms: dict[Monomial, int] = {}
        for m, c in self.terms.items():
            for n, d in other.terms.items():
                both = _times(m, n)
                terms[both] = terms.get(both, 0) + c * d
        return Expression(terms)

    def __floordiv__(self, other: Expression) -> Expression:
        """Return the floor of the quotient. Terms that the divisor divides evenly are divided exactly."""
        whole, rest = _divide_terms(self, other)
        if not rest.terms:
            return whole
        divisor = other.constant
        if divisor is not None and divisor < 0:
            return (-self) // (-other)
        if divisor is not None:
            common = math.gcd(divisor, *(c for m, c in rest.terms.items() if m))
            if common > 1:  # (2*H + 1)//4 == H//2: the remainder of the constant has no effect
                rest = Expression({m: c // common for m, c in rest.terms.items()})
                other = constant(divisor // common)
                more, rest = _divide_terms(rest, other)
                whole = whole + more
            if rest.constant is None and next(iter(rest.terms.values())) < 0:  # -(-a//b) == (a + b - 1)//b
                return whole - (other + constant(-1) - rest) // other
            if rest.constant is not None:
                return whole + constant(rest.constant // (other.constant or 1))
            offset = constant(rest.terms.get((), 0))
            inner = _only_atom(rest - offset)
            if inner is not None and inner.function == "//" and (inner.arguments[1].constant or 0) > 0:
                inner_a, inner_b = inner.arguments
                nested: Expression = (inner_a + inner_b * offset) // (inner_b * other)
                return whole + nested  # (a//2 + 1)//3 == (a + 2)//6
        return whole + of_atom(Atom("", "//", (rest, other)))

    def __mod__(self, other: Expression) -> Expression:
        return self - other * (self // other)


def _monomial_text(monomial: Monomial) -> str:
    return "*".join(a.text if p == 1 else f"{a.text}**{p}" for a, p in monomial)


def _times(m: Monomial, n: Monomial) -> Monomial:
    powers = dict(m)
    for atom, p in n:
        powers[atom] = powers.get(atom, 0) + p
    return tuple(sorted(powers.items(), key=lambda t: t[0].text))


def _only_atom(e: Expression) -> Atom | None:
    """Return the atom that the expression consists of, or None."""
    if len(e.terms) != 1:
        return None
    (monomial, c), *_ = e.terms.items()
    return monomial[0][0] if c == 1 and len(monomial) == 1 and monomial[0][1] == 1 else None


def _divide_terms(a: Expression, b: Expression) -> tuple[Expression, Expression]:
    """Return (q, r) with a == b * q + r, where q holds the terms that b divides.

    A divisor of several terms divides only as a whole.
    """
    zero = constant(0)
    if len(b.terms) != 1:
        factor = _common_factor(a, b)
        return (factor, zero) if factor is not None else (zero, a)
    (divisor, d), *_ = b.terms.items()
    whole: dict[Monomial, int] = {}
    rest: dict[Monomial, int] = {}
    for m, c in a.terms.items():
        left = _without(m, divisor)
        q = c // d if left is not None else 0
        if left is not None and (not left or c % d == 0) and q:
            whole[left] = q
        else:
            q = 0
        if c - q * d:
            rest[m] = c - q * d
    return Expression(whole), Expression(rest)


def is_increasing(e: Expression) -> bool:
    """Return whether an expression certainly does not decrease where a symbol increases."""
    return all(c > 0 and all(_atom_increases(a) for a, _ in m) for m, c in e.terms.items() if m)


def _atom_increases(atom: Atom) -> bool:
    if not atom.function:
        return True
    if atom.function == "//":
        a, b = atom.arguments
        return (b.constant or 0) > 0 and is_increasing(a) and bounds(a, {})[0] >= 0
    return atom.function in ("max", "min") and all(map(is_increasing, atom.arguments))


def least_value(e: Expression, name: str, low: int) -> int | None:
    """Return the least value of the symbol, from `low` on, at which an increasing expression is not negative."""
    high = low
    while e.value({name: high}) < 0:
        high = high * 2 + 1
        if high > MAX_VALUES:
            return None
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if e.value({name: middle}) >= 0 else (middle + 1, high)
    return high


def divided_by_common(e: Expression) -> Expression | None:
    """Return the expression divided by a symbol that all its terms contain, or None. Symbols are positive."""
    for atom, _ in next(iter(e.terms), ()):
        if not atom.function and all(any(a == atom for a, _ in m) for m in e.terms):
            return _divide_terms(e, of_atom(atom))[0]
    return None


def extremum_in(e: Expression) -> tuple[Atom, int] | None:
    """Return a "max" or a "min" that is a term of its own, with its coefficient, or None."""
    for m, c in e.terms.items():
        if len(m) == 1 and m[0][1] == 1 and m[0][0].function in ("max", "min"):
            return m[0][0], c
    return None


def with_fixed_extrema(e: Expression, ranges: Ranges) -> Expression:
    """Return the expression with a number for each "max" and "min" term that has one value in these ranges."""
    for m, c in e.terms.items():
        low, high = _atom_bounds(m[0][0], ranges, {}) if m and m[0][0].function in ("max", "min") else (0, 1)
        if low == high and len(m) == 1 and m[0][1] == 1:
            e = e + Expression({m: -c, (): c * int(low)})
    return e


def remainder_in(e: Expression) -> tuple[Expression, Expression, Expression] | None:
    """Return (a, b, rest) of an expression a % b + rest, which is stored as a - b * (a // b) + rest, or None."""
    for monomial in e.terms:
        for atom, _ in monomial:
            if atom.function == "//":
                a, b = atom.arguments
                stored = a - b * of_atom(atom)
                if all(e.terms.get(m) == c for m, c in stored.terms.items()):
                    return a, b, e - stored
    return None


def extremum_arguments(e: Expression, function: str) -> tuple[Expression, ...]:
    """Return the arguments of an expression that consists of a "max" or "min", else the expression itself."""
    atom = _only_atom(e)
    return atom.arguments if atom is not None and atom.function == function else (e,)


def _without(m: Monomial, divisor: Monomial) -> Monomial | None:
    """Return the monomial divided by another, or None if it does not divide it."""
    powers = dict(m)
    for atom, p in divisor:
        if powers.get(atom, 0) < p:
            return None
        powers[atom] -= p
    return tuple((a, p) for a, p in powers.items() if p)


def _common_factor(a: Expression, b: Expression) -> Expression | None:
    """Return the term q with a == b * q, or None. `b` has several terms."""
    if not a.terms or len(a.terms) % len(b.terms):
        return None
    (m, c), (n, d) = next(iter(a.terms.items())), next(iter(b.terms.items()))
    left = _without(m, n)
    if left is None or c % d:
        return None
    q = Expression({left: c // d})
    rest = a - q * b
    if not rest.terms:
        return q
    more = _common_factor(rest, b) if len(rest.terms) < len(a.terms) else None
    return None if more is None else q + more


def constant(value: int) -> Expression:
    """Return the expression of a number."""
    return _constant(int(value))


@lru_cache(_CACHED)
def _constant(value: int) -> Expression:
    return Expression({(): value})


def of_atom(atom: Atom) -> Expression:
    """Return the expression that consists of one atom."""
    return Expression({((atom, 1),): 1})


@lru_cache(_CACHED)
def symbol(name: str) -> Expression:
    """Return the expression that consists of one symbol."""
    return of_atom(Atom(name))


# ---------------------------------------------------------------------- bounds


def bounds(e: Expression, ranges: Ranges) -> Bounds:
    """Return the interval that certainly contains the values of an expression."""
    return _bounds(e, ranges, {})


def _bounds(e: Expression, ranges: Ranges, cache: dict[Atom, Bounds]) -> Bounds:
    """Return bounds(e, ranges). cache: those of atoms, which occur many times in nested expressions."""
    low, high = _interval(e.terms, ranges, cache)
    relaxed, spare_low, spare_high = _without_quotients(e)
    least, greatest = _interval(relaxed, ranges, cache)
    low, high = max(low, least + spare_low), min(high, greatest + spare_high)
    return _whole_bound(low, math.ceil, -1e-6), _whole_bound(high, math.floor, 1e-6)


def _whole_bound(bound: float, whole: Callable[[float], int], tolerance: float) -> float:
    """Return a bound of integers as an integer, with a tolerance for the rounding of a sum of fractions."""
    return whole(bound + tolerance) if abs(bound) < 2**50 else bound


def _without_quotients(e: Expression) -> tuple[dict[Monomial, Any], float, float]:
    """Return the terms with each quotient `a // k` as `a/k - r/k`, and the interval of the sum of all -r/k.

    r lies between 0 and k - 1. Only terms that consist of one quotient by a positive number are replaced.
    """
    terms: dict[Monomial, Any] = {}
    low = high = 0.0
    for m, c in e.terms.items():
        atom = m[0][0] if len(m) == 1 and m[0][1] == 1 else None
        k = atom.arguments[1].constant if atom is not None and atom.function == "//" else None
        if atom is None or k is None or k <= 0:
            terms[m] = terms.get(m, 0) + c
            continue
        inner, below, above = _without_quotients(atom.arguments[0])
        factor = Fraction(c, k)
        for n, d in inner.items():
            terms[n] = terms.get(n, 0) + d * factor
        ends = [float(factor) * below, float(factor) * above]
        spare = [0.0, -float(factor) * (k - 1)]
        low, high = low + min(ends) + min(spare), high + max(ends) + max(spare)
    return {m: c for m, c in terms.items() if c}, low, high


def _interval(terms: Mapping[Monomial, Any], ranges: Ranges, cache: dict[Atom, Bounds]) -> Bounds:
    low = high = 0.0
    for m, c in terms.items():
        below, above = 1.0, 1.0
        for atom, power in m:
            a = cache.get(atom)
            if a is None:
                a = cache[atom] = _atom_bounds(atom, ranges, cache)
            for _ in range(power):
                ends = [x * y if x and y else 0.0 for x in (below, above) for y in a]
                below, above = min(ends), max(ends)
        ends = [float(c) * below, float(c) * above]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _atom_bounds(atom: Atom, ranges: Ranges, cache: dict[Atom, Bounds]) -> Bounds:
    if not atom.function:
        return ranges.get(atom.name, (1, MAX_VALUES))
    if len(atom.arguments) == 1:
        return -math.inf, math.inf
    intervals = [_bounds(e, ranges, cache) for e in atom.arguments]
    if atom.function in ("max", "min"):
        choose = max if atom.function == "max" else min
        return choose(e[0] for e in intervals), choose(e[1] for e in intervals)
    (low, high), (below, above) = intervals
    if below <= 0:
        return -math.inf, math.inf
    ends = [x / y if math.isfinite(x) else x for x in (low, high) for y in (below, above) if math.isfinite(y)]
    return math.floor(min(ends, default=-math.inf)) if math.isfinite(
        min(ends, default=-math.inf)
    ) else -math.inf, (math.floor(max(ends)) if ends and math.isfinite(max(ends)) else math.inf)
