"""Double-precision numbers that are computed from symbolic sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from anylayer.graph.expressions import Atom, Expression, constant, of_atom

_REAL_FUNCTIONS: dict[str, Callable[..., float]] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b,
    "**": lambda a, b: a**b, "sqrt": math.sqrt, "abs": abs, "float": float,
}  # fmt: skip


class Real:
    """A double-precision number that is computed from sizes, with the operations of Python's floats in order.

    function: "+", "-", "*", "/", "**", "sqrt", "abs", or "float" for an Expression or a number.
    """

    __slots__ = ("arguments", "function", "text")

    def __init__(self, function: str, *arguments: Any) -> None:
        self.function = function
        self.arguments = arguments
        texts = [str(a) for a in arguments]
        if function == "float":
            self.text = texts[0]
        elif len(texts) == 1:
            self.text = f"{function}({texts[0]})"
        else:
            self.text = f"({texts[0]}) {function} ({texts[1]})"

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Real) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    @property
    def symbols(self) -> frozenset[str]:
        """The names of the symbols in this number."""
        return frozenset[str]().union(*(a.symbols for a in self.arguments if not isinstance(a, float)))

    def value(self, symbols: Mapping[str, int]) -> float:
        """Return the value for these values of the symbols. Raises ZeroDivisionError, KeyError."""
        values = [a if isinstance(a, float) else a.value(symbols) for a in self.arguments]
        return _REAL_FUNCTIONS[self.function](*values)

    def fraction(self) -> tuple[Expression, int] | None:
        """Return (e, d) if the number is exactly e / d with d a power of two, which floats do not round."""
        if self.function == "float":
            only = self.arguments[0]
            if not isinstance(only, float):
                return only, 1
            n, d = only.as_integer_ratio() if math.isfinite(only) else (0, 0)
            return (constant(n), d) if 0 < d <= 2**20 and abs(n) <= 2**30 else None
        if self.function not in ("+", "-", "*", "/"):
            return None
        parts = [a.fraction() for a in self.arguments]
        (a, p), (b, q) = (part or (constant(0), 0) for part in parts)
        if not p or not q:
            return None
        if self.function == "*":
            return a * b, p * q
        if self.function == "/":
            divisor = b.constant or 0
            exact = divisor > 0 and divisor & (divisor - 1) == 0
            return (a * constant(q), p * divisor) if exact else None
        left, right = a * constant(q), b * constant(p)
        return (left + right if self.function == "+" else left - right), p * q

    def rounded(self, function: str) -> Expression:
        """Return the "floor", the "ceil" or the "round" of the number as an integer expression."""
        fraction = self.fraction()
        pair = (fraction[0], constant(fraction[1])) if fraction is not None else None
        if pair is None and self.function == "/":  # a float quotient of integers below 2^53 rounds to no integer
            a, b = (x.fraction() for x in self.arguments)
            if a is not None and b is not None:
                pair = a[0] * constant(b[1]), b[0] * constant(a[1])
        if pair is None or function == "round":
            return of_atom(Atom("", function, (self,)))
        return pair[0] // pair[1] if function == "floor" else -((-pair[0]) // pair[1])
