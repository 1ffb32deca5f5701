"""Symbolic sizes: integers that also carry the expression of the input's sizes that they were computed from.

While a network is traced with symbolic sizes, `x.shape` contains a Size for each open size. A Size carries the
value at the traced size. Arithmetic keeps its expression; a comparison returns a bool and records a Guard, the
condition under which the trace is valid. Where a layer's code turns a Size into a plain number, as an index of a
list, a key of a dict or an argument of range, a guard records that the size has this value. A Size is not an int,
because Python reads the value of an int without asking it.

Outside a trace, two sizes are equal only if they are equal at every size.

Compare the symbolic integers of torch.export, which record guards in the same way.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Sequence
from functools import partialmethod
from types import FrameType
from typing import Any, cast

import numpy as np

from anylayer.graph.expressions import Atom, Expression, constant, extremum_arguments, of_atom
from anylayer.graph.guards import RELATIONS, SymbolicTrace, current_trace
from anylayer.graph.place import JoinError, is_users, may_decide_by_text, refusal, runs_operator, user_place
from anylayer.graph.reals import Real


def _expression(x: object) -> Expression | None:
    """Return the expression of an integer, or None for anything else."""
    if type(x) is Size:
        return x.expression
    return constant(int(x)) if isinstance(x, (int, np.integer)) else None


def _value(x: Any) -> Any:
    return x.value if issubclass(type(x), _Symbolic) else x


def _real(x: object) -> Real | None:
    """Return a number as a Real, or None for anything else."""
    if isinstance(x, SizeReal):
        return x.real_expression
    if isinstance(x, (float, np.floating)):
        return Real("float", float(x))
    e = _expression(x)
    return None if e is None else Real("float", e)


def _integers(function: Callable[[Any, Any], Any]) -> Any:
    """Return the methods `a op b` and `b op a` for an operation that gives an integer for integers."""

    def combination(a: Any, b: Any, x: Any, y: Any) -> Any:
        return new_size(function(_value(x), _value(y)), function(a, b))

    def method(self: Size, other: object) -> Any:
        e = _expression(other)
        if e is not None:
            return combination(self.expression, e, self, other)
        return function(self.as_real(), other) if _is_float(other) else self._repeat(other)

    def reflected(self: Size, other: object) -> Any:
        e = _expression(other)
        if e is not None:
            return combination(e, self.expression, other, self)
        return function(SizeReal.of(other), self.as_real()) if _is_float(other) else self._repeat(other)

    return method, reflected


def _is_float(x: object) -> bool:
    return isinstance(x, (float, np.floating))


def _plain_methods(names: str) -> list[Any]:
    """Return special methods of int or float that compute with the plain number."""

    def method(self: _Symbolic, *args: object, name: str) -> object:
        return getattr(self.fix(), name)(*args)

    return [partialmethod(method, name=f"__{name}__") for name in names.split()]


def _comparison(relation: str) -> Any:
    function = RELATIONS[relation]

    def method(self: Any, other: Any) -> Any:
        left, right = self._sides(other)
        if right is None:
            return NotImplemented
        trace = current_trace.get()
        if left == right:
            return relation in ("==", "<=", ">=")
        if trace is None and relation in ("==", "!="):
            return relation == "!="
        result = function(self.value, other.value if issubclass(type(other), _Symbolic) else other)
        if trace is None:
            return result
        needs_data = trace.depends_on_data(left, relation, right, bool(result))
        if needs_data and is_users(sys._getframe(1), ("anylayer.tracing.joined_ifs",)):
            answer = trace.decide(self, relation, other)
            if answer is not None:
                return answer
        return trace.compare(left, relation, right, bool(result))

    return method


_BECOME_PLAIN = (
    "become a plain number here, as an index of a list or an argument of range; np.arange(n) is recorded"
)


class _Symbolic:
    """A number with the expression that it was computed from. `value` is the number at the traced sizes."""

    __slots__ = ("value",)
    value: Any

    def fix(self, what: str = _BECOME_PLAIN) -> Any:
        """Return the plain number. A guard records that the size has this value.

        Raises TraceError if the size depends on data. what: what such a size cannot do.
        """
        trace = current_trace.get()
        is_logged = trace is not None and sys._getframe(2).f_globals.get("__name__") == "logging"  # "%d" % n
        if trace is not None and not is_logged:
            if depends_on_data(self):
                message = f"a number of selected elements, known only when the network runs, cannot {what}"
                raise refusal(message, kind=JoinError)
            left, right = self._sides(self.value)
            trace.compare(left, "==", right, True)
            if not trace.fixes and not runs_operator():
                trace.fixes = user_place()
        return self.value

    def _sides(self, other: object) -> tuple[Any, Any]:
        """Return the number and another one as expressions of the same kind: None for what is not a number."""
        if type(self) is Size and not _is_float(other):
            return self.expression, _expression(other)
        return _real(self), _real(other)

    def __int__(self) -> int:
        return int(self.fix())

    def __float__(self) -> float:
        return float(self.fix())

    def __reduce__(self) -> Any:
        return type(self), (self.value, self.expression if type(self) is Size else self.real_expression)

    def __hash__(self) -> int:
        if str(sys._getframe(1).f_globals.get("__name__")).startswith("anylayer.optimize."):
            return hash(self.value)  # a rule compares shapes there: == records what it needs
        return hash(self.fix("be a key of a dict or an element of a set"))

    def __array__(self, dtype: Any = None, copy: object = None) -> Any:
        if dtype is not None and np.dtype(dtype).kind == "O":
            array = np.empty((), object)
            array.fill(self)
            return array
        return np.asarray(self.fix(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        arrays = (_Symbolic, np.ndarray, np.generic)
        if any(hasattr(x, "__array_ufunc__") and not issubclass(type(x), arrays) for x in inputs):
            return NotImplemented
        return getattr(ufunc, method)(*(x.fix() if is_symbolic(x) else x for x in inputs), **kwargs)

    def __repr__(self) -> str:
        return self._text(sys._getframe(1), "")

    def __format__(self, spec: str) -> str:
        return self._text(sys._getframe(1), spec)

    def _text(self, reader: FrameType, spec: str) -> str:
        return format(self.fix("become text") if may_decide_by_text(reader) else self.value, spec)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not hasattr(self.value, name):
            raise AttributeError(f"'{type(self.value).__name__}' object has no attribute '{name}'")
        return getattr(self.fix(), name)


class Size(_Symbolic):
    """An integer with the expression that it was computed from.

    expression: an Expression of the symbols of the traced network.
    """

    __slots__ = ("expression",)
    expression: Expression

    def __init__(self, value: int, expression: Expression) -> None:
        self.value, self.expression = value, expression

    @property  # type: ignore[misc]  # isinstance(x, int) must be true
    def __class__(self) -> type:
        return int

    __add__, __radd__ = _integers(operator.add)
    __sub__, __rsub__ = _integers(operator.sub)
    __mul__, __rmul__ = _integers(operator.mul)
    __floordiv__, __rfloordiv__ = _integers(operator.floordiv)
    __mod__, __rmod__ = _integers(operator.mod)
    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    __and__, __or__, __xor__, __invert__ = _plain_methods("and or xor invert")
    __rand__, __ror__, __rxor__, __rlshift__, __rrshift__ = _plain_methods("rand ror rxor rlshift rrshift")
    __hash__ = _Symbolic.__hash__

    def _repeat(self, items: object) -> object:
        """Return a list times a size that depends on data, and NotImplemented for anything else."""
        trace = current_trace.get() if type(items) is list and depends_on_data(self) else None
        return NotImplemented if trace is None else trace.repeat(items, self)

    def as_real(self) -> SizeReal:
        """Return the size as a float."""
        return SizeReal(float(self.value), Real("float", self.expression))

    def __truediv__(self, other: object) -> Any:
        return self.as_real() / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.as_real()

    def __pow__(self, other: Any, modulus: Any = None) -> Any:
        if type(other) is int and 0 <= other <= 4 and modulus is None:
            return math.prod([self] * other, start=1)
        return self.as_real() ** other if modulus is None else pow(self.fix(), other, modulus)

    def __rpow__(self, other: Any, modulus: Any = None) -> Any:
        return other ** self.as_real() if modulus is None else NotImplemented

    def __divmod__(self, other: object) -> Any:
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

    def __index__(self) -> int:
        return int(self.fix())

    def __round__(self, digits: int | None = None) -> Any:
        return self if digits is None or digits >= 0 else round(self.fix(), digits)

    __floor__ = __ceil__ = __trunc__ = __pos__


def _reals(function: str) -> tuple[Any, Any]:
    """Return the methods of SizeReal for an operator with the number on its left, and on its right."""

    def method(self: SizeReal, other: object, modulus: object = None) -> Any:
        return self._with(function, other, False)

    def swapped(self: SizeReal, other: object, modulus: object = None) -> Any:
        return self._with(function, other, True)

    return method, swapped


class SizeReal(_Symbolic):
    """A float with the expression that it was computed from."""

    __slots__ = ("real_expression",)
    real_expression: Real

    def __init__(self, value: float, expression: Real) -> None:
        self.value, self.real_expression = value, expression

    @property  # type: ignore[misc]  # isinstance(x, float) must be true
    def __class__(self) -> type:
        return float

    @staticmethod
    def of(x: object) -> SizeReal:
        """Return a number as a SizeReal."""
        expression = _real(x)
        if expression is None:
            raise TypeError(f"not a number: {x!r}")
        return SizeReal(float(_value(x)), expression)

    def double(self) -> SizeDouble:
        """Return the number as NumPy's functions return it."""
        return SizeDouble(self.value, self.real_expression)

    __eq__, __ne__ = _comparison("=="), _comparison("!=")
    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    __hash__ = _Symbolic.__hash__
    __mod__, __rmod__, __divmod__, __rdivmod__ = _plain_methods("mod rmod divmod rdivmod")

    def _with(self, function: str, other: object, swapped: bool) -> Any:
        operand = _real(other)
        if operand is None:
            return NotImplemented
        a, b = (operand, self.real_expression) if swapped else (self.real_expression, operand)
        z = float(_value(other))
        x, y = (z, self.value) if swapped else (self.value, z)
        value = {"+": x + y, "-": x - y, "*": x * y}.get(function)
        if value is None:
            value = x / y if function == "/" else x**y
        result = SizeReal(value, Real(function, a, b))
        return result.double() if SizeDouble in (type(self), type(other)) else result

    __add__, __radd__ = _reals("+")
    __sub__, __rsub__ = _reals("-")
    __mul__, __rmul__ = _reals("*")
    __truediv__, __rtruediv__ = _reals("/")
    __pow__, __rpow__ = _reals("**")

    def __floordiv__(self, other: object) -> Any:
        return SizeReal.of(math.floor(self / other))

    def __rfloordiv__(self, other: Any) -> Any:
        return SizeReal.of(math.floor(other / self))

    def __neg__(self) -> Any:
        return 0.0 - self

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return SizeReal(abs(self.value), Real("abs", self.real_expression))

    def sqrt(self) -> SizeReal:
        """Return the square root."""
        return SizeReal(math.sqrt(self.value), Real("sqrt", self.real_expression))

    def __bool__(self) -> bool:
        return bool(self != 0.0)

    def __floor__(self) -> int:
        return new_size(math.floor(self.value), self.real_expression.rounded("floor"))

    def __ceil__(self) -> int:
        return new_size(math.ceil(self.value), self.real_expression.rounded("ceil"))

    def __trunc__(self) -> int:
        return self.__floor__() if self >= 0.0 else self.__ceil__()

    def __round__(self, digits: int | None = None) -> Any:
        if digits is not None:
            return round(self.fix(), digits)
        return new_size(round(self.value), self.real_expression.rounded("round"))


class SizeDouble(SizeReal):
    """A SizeReal that combines with arrays as NumPy's float64 does: the result is float64."""

    __slots__ = ()
    dtype = np.dtype(np.float64)
    ndim = 0
    shape = ()

    def item(self) -> SizeReal:
        """Return the number as Python's functions return it."""
        return SizeReal(self.value, self.real_expression)


def new_size(value: int, expression: Expression) -> int:
    """Return an integer with this value and this expression: a plain int if the expression has no symbols."""
    if expression.constant is not None:
        return int(value)
    return cast(int, Size(int(value), expression))


def is_symbolic(x: object) -> bool:
    """Return whether a number was computed from symbolic sizes."""
    return type(x) in (Size, SizeReal, SizeDouble)


def depends_on_data(x: object) -> bool:
    """Return whether a size is computed from the number of elements that a mask selects."""
    trace = current_trace.get()
    if type(x) is not Size or trace is None:
        return False
    return any(name in trace.counts or name in trace.ended for name in x.expression.symbols)


def is_empty(shape: Sequence[Any]) -> bool:
    """Return whether a size of a shape is 0. One that depends on data is not, even where it is 0 in this trace."""
    return any(bool(d == 0) for d, n in zip(shape, plain(shape)) if n == 0 and not depends_on_data(d))


def holds_symbolic(x: object) -> bool:
    """Return whether a number, or one in nested lists, was computed from symbolic sizes."""
    return any(map(holds_symbolic, x)) if isinstance(x, (list, tuple)) else is_symbolic(x)


def symbolic_shape(shape: Sequence[Any]) -> bool:
    """Return whether a size of a shape is symbolic."""
    return Size in map(type, shape)


def plain(shape: Sequence[Any]) -> tuple[Any, ...]:
    """Return a shape whose symbolic sizes are plain numbers, for limits and messages."""
    return tuple(d.value if type(d) is Size else d for d in shape)


def extreme(function: str, first: Any, *others: Any) -> Any:
    """Return the "max" or the "min" of numbers, without a guard where all of them are integers."""
    extremum = first
    for x in others:
        a, b = _expression(extremum), _expression(x)
        trace = current_trace.get()
        choose = max if function == "max" else min
        if a is None or b is None or not (is_symbolic(extremum) or is_symbolic(x)):
            extremum = choose(extremum, x)
        else:
            if trace is not None:
                trace.need_outside(a.symbols | b.symbols)
            value = choose(_value(extremum), _value(x))
            extremum = new_size(value, _extremum(function, a, b, trace))
    return extremum


def _extremum(function: str, a: Expression, b: Expression, trace: SymbolicTrace | None) -> Expression:
    """Return the "max" or the "min" of two expressions, without arguments that cannot be the result."""
    terms: list[Expression] = []
    for x in (*extremum_arguments(a, function), *extremum_arguments(b, function)):
        if not any(_covers(function, y, x, trace) for y in terms):
            terms = [y for y in terms if not _covers(function, x, y, trace)] + [x]
    return terms[0] if len(terms) == 1 else of_atom(Atom("", function, tuple(sorted(terms, key=str))))


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


def is_zero(x: object) -> bool:
    """Return whether a size is certainly 0."""
    return type(x) is not Size and bool(x == 0)


def as_index(x: Any) -> Any:
    """Return a Size unchanged, and any other integer as operator.index does."""
    return x if type(x) is Size else operator.index(x)
