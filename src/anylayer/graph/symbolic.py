"""Symbolic sizes: integers that also carry the expression of the input's sizes that they were computed from.

While a network is traced with symbolic sizes, `x.shape` contains a Size for each open size. A Size is an int with
the value at the traced size. Arithmetic keeps its expression; a comparison returns a bool and records a Guard, the
condition under which the trace is valid. Where code turns a Size into a plain number, that number is the same at
every size; the comparison of two traces finds it (anylayer.compile.symbolic).

Outside a trace, two sizes are equal only if they are equal at every size.

Compare the symbolic integers of torch.export, which record guards in the same way.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from anylayer.graph.expressions import Atom, Expression, constant, extremum_arguments, of_atom
from anylayer.graph.guards import RELATIONS, SymbolicTrace, current_trace
from anylayer.graph.place import is_users, refusal, runs_operator, user_place
from anylayer.graph.reals import Real

R = TypeVar("R", bound="SizeReal")


def _expression(x: Any) -> Expression | None:
    """Return the expression of an integer, or None for anything else."""
    if type(x) is Size:
        return x.expression
    return constant(int(x)) if isinstance(x, (int, np.integer)) else None


def _real(x: Any) -> Real | None:
    """Return a number as a Real, or None for anything else."""
    if isinstance(x, SizeReal):
        return x.real_expression
    if isinstance(x, (float, np.floating)):
        return Real("float", float(x))
    e = _expression(x)
    return None if e is None else Real("float", e)


def _integers(function: Callable[[Any, Any], Any]) -> Any:
    """Return the methods `a op b` and `b op a` for an operation that gives an integer for integers."""

    def combined(a: Any, b: Any, x: Any, y: Any) -> Any:
        return new_size(int(function(int(x), int(y))), function(a, b))

    def method(self: Size, other: Any) -> Any:
        e = _expression(other)
        if e is not None:
            return combined(self.expression, e, self, other)
        if type(other) in (list, tuple, str):
            self.need_fixed("cannot repeat the elements of a list")
        return function(self.as_real(), other) if _is_float(other) else NotImplemented

    def reflected(self: Size, other: Any) -> Any:
        e = _expression(other)
        if e is not None:
            return combined(e, self.expression, other, self)
        if type(other) in (list, tuple, str):
            self.need_fixed("cannot repeat the elements of a list")
        return function(SizeReal.of(other), self.as_real()) if _is_float(other) else NotImplemented

    return method, reflected


def _is_float(x: object) -> bool:
    return isinstance(x, (float, np.floating))


def _bits(name: str) -> Any:
    """Return a method of int that reads the bits of a number."""

    def method(self: Size, *args: Any) -> Any:
        self.need_fixed("has no bits that could be recorded")
        return getattr(int, name)(self, *args)

    return method


def _comparison(relation: str) -> Any:
    function = RELATIONS[relation]

    def method(self: Any, other: Any) -> Any:
        plain = float if isinstance(self, float) else int
        if type(self) is Size and not _is_float(other):
            left: Any = self.expression
            right: Any = _expression(other)
        else:
            left, right = _real(self), _real(other)
        if right is None:
            return NotImplemented
        trace = current_trace.get()
        if left == right:
            return relation in ("==", "<=", ">=")
        if trace is None and relation in ("==", "!="):
            return relation == "!="
        result = function(plain(self), plain(other))
        if trace is None:
            return result
        if trace.depends_on_data(left, relation, right, bool(result)) and is_users(sys._getframe(1)):
            answer = trace.decide(self, relation, other)
            if answer is not None:
                return answer
        return trace.compare(left, relation, right, bool(result))

    return method


class Size(int):
    """An integer with the expression that it was computed from.

    expression: an Expression of the symbols of the traced network.
    """

    expression: Expression

    __add__, __radd__ = _integers(operator.add)
    __sub__, __rsub__ = _integers(operator.sub)
    __mul__, __rmul__ = _integers(operator.mul)
    __floordiv__, __rfloordiv__ = _integers(operator.floordiv)
    __mod__, __rmod__ = _integers(operator.mod)
    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __and__, __or__, __xor__ = _bits("__and__"), _bits("__or__"), _bits("__xor__")
    __rand__, __ror__, __rxor__ = _bits("__rand__"), _bits("__ror__"), _bits("__rxor__")
    __invert__, bit_length = _bits("__invert__"), _bits("bit_length")
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")

    def __hash__(self) -> int:
        if is_users(sys._getframe(1)):
            self.need_fixed("cannot be a key of a dict or an element of a set")
        return int.__hash__(self)

    def need_fixed(self, what: str) -> None:
        """Raise TraceError if the size depends on data. what: what such a size cannot be, or do."""
        if depends_on_data(self):
            raise refusal(f"a number of selected elements, which is known only when the network runs, {what}")

    def as_real(self) -> SizeReal:
        """Return the size as a float."""
        return new_real(float(int(self)), Real("float", self.expression))

    def __truediv__(self, other: Any) -> Any:
        return self.as_real() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.as_real()

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if type(other) is int and 0 <= other <= 4 and modulus is None:
            return math.prod([self] * other, start=1)
        return self.as_real() ** other if modulus is None else NotImplemented

    def __rpow__(self, other: Any, modulus: Any = None) -> Any:
        return other ** self.as_real() if modulus is None else NotImplemented

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __lshift__(self, other: Any) -> Any:
        return self * (1 << other)

    def __rshift__(self, other: Any) -> Any:
        return self // (1 << other)

    def __neg__(self) -> Any:
        return 0 - self

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return extreme("max", self, -self)

    def __bool__(self) -> bool:
        return bool(self != 0)

    def __index__(self) -> Size:
        return self

    def __round__(self, digits: Any = None) -> Any:
        return self

    __floor__ = __ceil__ = __trunc__ = __pos__

    def __repr__(self) -> str:
        return int.__repr__(self)

    __str__ = __repr__

    def __reduce__(self) -> Any:
        return new_size, (int(self), self.expression)


def _reals(function: str) -> tuple[Any, Any]:
    """Return the methods of SizeReal for an operator with the number on its left, and on its right."""

    def method(self: SizeReal, other: Any, modulus: Any = None) -> Any:
        return self._with(function, other, False)

    def swapped(self: SizeReal, other: Any, modulus: Any = None) -> Any:
        return self._with(function, other, True)

    return method, swapped


class SizeReal(float):
    """A float with the expression that it was computed from."""

    real_expression: Real

    @staticmethod
    def of(x: Any) -> SizeReal:
        """Return a number as a SizeReal."""
        expression = _real(x)
        if expression is None:
            raise TypeError(f"not a number: {x!r}")
        return new_real(float(x), expression)

    def double(self) -> SizeDouble:
        """Return the number as NumPy's functions return it."""
        return _new(SizeDouble, float(self), self.real_expression)

    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    __hash__ = float.__hash__

    def _with(self, function: str, other: Any, swapped: bool) -> Any:
        operand = _real(other)
        if operand is None:
            return NotImplemented
        a, b = (operand, self.real_expression) if swapped else (self.real_expression, operand)
        x, y = (float(other), float(self)) if swapped else (float(self), float(other))
        value = {"+": x + y, "-": x - y, "*": x * y}.get(function)
        if value is None:
            value = x / y if function == "/" else x**y
        result = new_real(value, Real(function, a, b))
        return result.double() if SizeDouble in (type(self), type(other)) else result

    __add__, __radd__ = _reals("+")
    __sub__, __rsub__ = _reals("-")
    __mul__, __rmul__ = _reals("*")
    __truediv__, __rtruediv__ = _reals("/")
    __pow__, __rpow__ = _reals("**")

    def __floordiv__(self, other: Any) -> Any:
        return SizeReal.of(math.floor(self / other))

    def __rfloordiv__(self, other: Any) -> Any:
        return SizeReal.of(math.floor(other / self))

    def __neg__(self) -> Any:
        return 0.0 - self

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return new_real(abs(float(self)), Real("abs", self.real_expression))

    def sqrt(self) -> SizeReal:
        """Return the square root."""
        return new_real(math.sqrt(float(self)), Real("sqrt", self.real_expression))

    def __bool__(self) -> bool:
        return bool(self != 0.0)

    def __floor__(self) -> int:
        return new_size(math.floor(float(self)), self.real_expression.rounded("floor"))

    def __ceil__(self) -> int:
        return new_size(math.ceil(float(self)), self.real_expression.rounded("ceil"))

    def __trunc__(self) -> int:
        return self.__floor__() if self >= 0.0 else self.__ceil__()

    def __round__(self, digits: Any = None) -> Any:
        if digits is not None:
            return NotImplemented
        return new_size(round(float(self)), self.real_expression.rounded("round"))

    def __repr__(self) -> str:
        return float.__repr__(self)

    __str__ = __repr__


class SizeDouble(SizeReal):
    """A SizeReal that combines with arrays as NumPy's float64 does: the result is float64."""

    dtype = np.dtype(np.float64)
    ndim = 0
    shape = ()

    def item(self) -> float:
        """Return the value at the traced size as a float."""
        return float(self)


def new_size(value: int, expression: Expression) -> int:
    """Return an integer with this value and this expression: a plain int if the expression has no symbols."""
    if expression.constant is not None:
        return int(value)
    size = int.__new__(Size, value)
    size.expression = expression
    return size


def new_real(value: float, expression: Real) -> SizeReal:
    """Return a float with this value and this expression."""
    return _new(SizeReal, value, expression)


def _new(kind: type[R], value: float, expression: Real) -> R:
    real = float.__new__(kind, value)
    real.real_expression = expression
    return real


def is_symbolic(x: object) -> bool:
    """Return whether a number was computed from symbolic sizes."""
    return type(x) in (Size, SizeReal, SizeDouble)


def depends_on_data(x: object) -> bool:
    """Return whether a size is computed from the number of elements that a mask selects."""
    trace = current_trace.get()
    if type(x) is not Size or trace is None:
        return False
    return not (trace.counts.keys() | trace.ended).isdisjoint(x.expression.symbols)


def note_iteration(n: object) -> None:
    """Note that the user's code counts to a number in a loop, if it is a size of the inputs."""
    trace = current_trace.get()
    if trace is not None and type(n) is Size and not runs_operator():
        trace.iterates = trace.iterates or user_place()


def looks_constant(x: object) -> bool:
    """Return whether a size that depends on data has the same value in both traces of a function, as min(n, 2)
    has, so that a plain number that is made of it would look like a constant.
    """
    trace = current_trace.get()
    if type(x) is not Size or trace is None or not depends_on_data(x):
        return False
    examples = {name: count.example + (1 if trace.turn else -1) for name, count in trace.counts.items()}
    values = {**trace.symbols, **examples}
    return not x.expression.symbols <= values.keys() or x.expression.value(values) == int(x)


def is_empty(shape: Sequence[Any]) -> bool:
    """Return whether a size of a shape is 0. One that depends on data is not, even where it is 0 in this trace."""
    return any(d == 0 for d in plain([d for d in shape if not depends_on_data(d)]))


def holds_symbolic(x: object) -> bool:
    """Return whether a number, or one in nested lists, was computed from symbolic sizes."""
    return any(map(holds_symbolic, x)) if isinstance(x, (list, tuple)) else is_symbolic(x)


def symbolic_shape(shape: Sequence[Any]) -> bool:
    """Return whether a size of a shape is symbolic."""
    return Size in map(type, shape)


def plain(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Return a shape whose symbolic sizes are plain numbers, for limits and messages."""
    return tuple(int(d) if type(d) is Size else d for d in shape)


def extreme(function: str, first: Any, *others: Any) -> Any:
    """Return the "max" or the "min" of numbers, without a guard where all of them are integers."""
    found = first
    for x in others:
        a, b = _expression(found), _expression(x)
        trace = current_trace.get()
        choose = max if function == "max" else min
        if a is None or b is None or not (is_symbolic(found) or is_symbolic(x)):
            found = choose(found, x)
        else:
            if trace is not None:
                trace.need_outside(a.symbols | b.symbols)
            value = choose(int(found), int(x))
            found = new_size(value, _extremum(function, a, b, trace))
    return found


def _extremum(function: str, a: Expression, b: Expression, trace: SymbolicTrace | None) -> Expression:
    """Return the "max" or the "min" of two expressions, without arguments that cannot be the result."""
    found: list[Expression] = []
    for x in (*extremum_arguments(a, function), *extremum_arguments(b, function)):
        if not any(_covers(function, y, x, trace) for y in found):
            found = [y for y in found if not _covers(function, x, y, trace)] + [x]
    return found[0] if len(found) == 1 else of_atom(Atom("", function, tuple(sorted(found, key=str))))


def with_known_extrema(e: Expression, trace: SymbolicTrace) -> Expression:
    """Return an expression without the arguments of "max" and "min" that cannot be their result in a trace."""
    total = constant(0)
    for monomial, c in e.terms.items():
        part = constant(c)
        for atom, power in monomial:
            x = of_atom(atom)
            if atom.function in ("max", "min"):
                x, *others = (with_known_extrema(a, trace) for a in atom.arguments)
                for y in others:
                    x = _extremum(atom.function, x, y, trace)
            part = math.prod([x] * power, start=part)
        total = total + part
    return total


def _covers(function: str, a: Expression, b: Expression, trace: SymbolicTrace | None) -> bool:
    """Return whether the "max" or "min" of `a` and `b` is certainly `a`."""
    more = a - b if function == "max" else b - a
    return a == b or (trace is not None and trace.not_negative(more))


# --------------------------------------------------- questions that record no guard


def same(a: Any, b: Any) -> bool:
    """Return whether two sizes are certainly equal at every size of the inputs. It records no guard."""
    if type(a) is Size or type(b) is Size:
        return type(a) is type(b) and a.expression == b.expression
    return bool(a == b)


def same_shape(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Return whether two shapes are certainly equal at every size of the inputs."""
    return len(a) == len(b) and all(map(same, a, b))


def is_zero(x: Any) -> bool:
    """Return whether a size is certainly 0."""
    return type(x) is not Size and bool(x == 0)


def as_int(x: Any) -> int:
    """Return a Size unchanged, and any other integer as an int."""
    return x if type(x) is Size else int(x)
