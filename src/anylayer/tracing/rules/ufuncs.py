"""The elementwise ufuncs. The inputs of a rule have the dtypes of NumPy's loop; at least one is traced.

Rules that combine several operations are written with NumPy functions, which call these rules again.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial, wraps
from typing import Any, NoReturn

import numpy as np

from anylayer.graph.place import refusal
from anylayer.graph.sizes import broadcast, is_static
from anylayer.network import Array
from anylayer.tracing.array import TracedArray, TracingRule
from anylayer.tracing.dispatch import ufunc_rule
from anylayer.tracing.dtypes import BOOL, F4, NATIVE
from anylayer.tracing.primitives import binary, cast, is_constant, note_inexact_rounding, select, to_native, unary
from anylayer.tracing.record import record, value_of


def _in_engine_dtype(rule: TracingRule) -> TracingRule:
    """Return a rule that computes in the engines' dtype and casts the result to the dtype of the first input.

    So float16 is computed in float32 and rounded once, as NumPy does.
    """

    @wraps(rule)
    def wide(*xs: Any) -> Any:
        dtype = xs[0].dtype
        if dtype in NATIVE:
            return rule(*xs)
        return cast(rule(*map(to_native, xs)), dtype)

    return wide


def _arithmetic(op: str, boolean: str = "") -> TracingRule:
    @_in_engine_dtype
    def wide(a: Array, b: Array) -> Array:
        return binary(op, a, b)

    def rule(a: Array, b: Array) -> Array:
        return binary(boolean, a, b) if boolean and a.dtype == BOOL else wide(a, b)

    return rule


ufunc_rule(np.add)(_arithmetic("Add", "Or"))
_multiply = ufunc_rule(np.multiply)(_arithmetic("Mul", "And"))
ufunc_rule(np.subtract)(_arithmetic("Sub"))
_divide = ufunc_rule(np.divide)(_arithmetic("Div"))
ufunc_rule(np.maximum)(_arithmetic("Max", "Or"))
ufunc_rule(np.minimum)(_arithmetic("Min", "And"))


# -------------------------------------------------------- one array, one operator


def _float_operator(op: str, double: bool = True) -> TracingRule:
    """Return the rule of an operator on floats. `double` tells whether ONNX Runtime has it for float64."""

    def rule(x: Array) -> Array:
        native = x.dtype if x.dtype == F4 or (double and x.dtype in NATIVE) else F4
        return cast(unary(op, cast(x, native)), x.dtype)

    return rule


ufunc_rule(np.sqrt)(_float_operator("Sqrt"))
ufunc_rule(np.exp)(_float_operator("Exp"))
ufunc_rule(np.log)(_float_operator("Log"))
ufunc_rule(np.sin)(_float_operator("Sin"))
ufunc_rule(np.arcsin)(_float_operator("Asin", double=False))
ufunc_rule(np.arccos)(_float_operator("Acos", double=False))
ufunc_rule(np.arctan)(_float_operator("Atan", double=False))
ufunc_rule(np.tanh)(_float_operator("Tanh"))
ufunc_rule(np.arcsinh)(_float_operator("Asinh", double=False))
ufunc_rule(np.arccosh)(_float_operator("Acosh", double=False))
ufunc_rule(np.arctanh)(_float_operator("Atanh", double=False))


def _formula_in_float64(op: str) -> Callable[[TracingRule], TracingRule]:
    """Return a decorator for the formula of an operator that ONNX Runtime (Cos: before 1.24) lacks for float64."""

    def decorator(formula: TracingRule) -> TracingRule:
        operator = _float_operator(op)
        return lambda x: formula(x) if x.dtype == np.float64 else operator(x)

    return decorator


ufunc_rule(np.cos)(_formula_in_float64("Cos")(lambda x: np.sin(x + math.pi / 2)))
ufunc_rule(np.tan)(_formula_in_float64("Tan")(lambda x: np.sin(x) / np.cos(x)))


@ufunc_rule(np.sinh)
@_formula_in_float64("Sinh")
def _sinh(x: Array) -> Any:
    less = np.expm1(np.abs(x) / 2)  # of x / 2, so that it overflows only where NumPy does
    return np.sign(x) * less * (less + 2) * (1 + 1 / (less + 1) / (less + 1)) / 2


@ufunc_rule(np.cosh)
@_formula_in_float64("Cosh")
def _cosh(x: Array) -> Any:
    half = np.exp(np.abs(x) / 2)
    return (half / 2) * half + 1 / half / half / 2


def _rounding(op: str) -> TracingRule:
    """Return the rule of a rounding operator such as Floor. Integers are returned unchanged."""
    single = _float_operator(op)

    def rule(x: TracedArray) -> Any:
        if x.dtype.kind in "biu":
            return x
        note_inexact_rounding(x)
        return single(x)

    return rule


ufunc_rule(np.floor)(_rounding("Floor"))
ufunc_rule(np.ceil)(_rounding("Ceil"))
ufunc_rule(np.rint)(_rounding("Round"))
ufunc_rule(np.trunc)(lambda x: x if x.dtype.kind in "biu" else np.sign(x) * np.floor(np.abs(x)))

_abs, _sign = _in_engine_dtype(lambda x: unary("Abs", x)), _in_engine_dtype(lambda x: unary("Sign", x))
ufunc_rule(np.negative)(_in_engine_dtype(lambda x: unary("Neg", x)))
ufunc_rule(np.absolute, np.fabs)(lambda x: x if x.dtype.kind in "bu" else _abs(x))
ufunc_rule(np.sign)(lambda x: (x != 0).astype(x.dtype) if x.dtype.kind == "u" else _sign(x))
ufunc_rule(np.positive, np.conjugate)(lambda x: x)
ufunc_rule(np.square)(lambda x: _multiply(x, x))


@ufunc_rule(np.reciprocal)
def _reciprocal(x: Array) -> Any:
    one = np.ones((), x.dtype)
    return _divide(one, x) if x.dtype.kind == "f" else _truncated_quotient(one, x)


def _scaled_by(factor: float) -> TracingRule:
    """Return a rule that multiplies by a constant."""
    return _in_engine_dtype(lambda x: x * x.dtype.type(factor))


ufunc_rule(np.deg2rad, np.radians)(_scaled_by(math.pi / 180))
ufunc_rule(np.rad2deg, np.degrees)(_scaled_by(180 / math.pi))
ufunc_rule(np.log2)(_in_engine_dtype(lambda x: np.log(x) * x.dtype.type(1 / math.log(2))))
ufunc_rule(np.log10)(_in_engine_dtype(lambda x: np.log(x) * x.dtype.type(1 / math.log(10))))
ufunc_rule(np.exp2)(_in_engine_dtype(lambda x: np.power(x.dtype.type(2), x)))
ufunc_rule(np.cbrt)(_in_engine_dtype(lambda x: np.sign(x) * np.power(np.abs(x), x.dtype.type(1 / 3))))
ufunc_rule(np.expm1)(_in_engine_dtype(lambda x: np.tanh(x / 2) * (np.exp(x) + 1)))


@ufunc_rule(np.log1p)
@_in_engine_dtype
def _log1p(x: Array) -> Array:
    u = x + 1
    d = u - 1
    return np.where(d == 0, x, np.log(u) * np.where(d == x, x.dtype.type(1), x / d))


# ------------------------------------------------------------------- division


def _zero_free(x: Array) -> bool:
    return is_constant(x) and bool((x != 0).all())


def _divide_or_zero(divide: TracingRule, a: Array, b: Array) -> Any:
    """Return the result of a division of integers, and 0 where the divisor is 0, as NumPy does."""
    if _zero_free(b):
        return divide(a, b)
    zero = b == 0
    return np.where(zero, b.dtype.type(0), divide(a, np.where(zero, b.dtype.type(1), b)))


def _truncated_quotient(a: Array, b: Array) -> Any:
    """Return the integer quotient rounded towards zero, and 0 where the divisor is 0."""
    return _divide_or_zero(_divide, a, b)


def _mod(a: Array, b: Array, fmod: int) -> Array:
    return record("Mod", [a, b], broadcast(a.shape, b.shape), a.dtype, fmod=fmod)


@ufunc_rule(np.fmod)
@_in_engine_dtype
def _fmod(a: Array, b: Array) -> Any:
    return _mod(a, b, 1) if a.dtype.kind == "f" else _divide_or_zero(partial(_mod, fmod=1), a, b)


@ufunc_rule(np.remainder)
@_in_engine_dtype
def _remainder(a: Array, b: Array) -> Any:
    if a.dtype.kind == "f":
        r = _mod(a, b, 1)
        r = np.where((r != 0) & ((r < 0) ^ (b < 0)), r + b, r)
        return np.copysign(r, b)  # a remainder of 0 has the sign of the divisor, too
    return _divide_or_zero(partial(_mod, fmod=0), a, b)


@ufunc_rule(np.floor_divide)
@_in_engine_dtype
def _floor_divide(a: Array, b: Array) -> Any:
    if a.dtype.kind != "f":
        return _truncated_quotient(a - np.remainder(a, b), b)
    quotient = (a - np.remainder(a, b)) / b
    low = np.floor(quotient)
    result = np.where(quotient - low > 0.5, low + 1, low)
    return result if _zero_free(b) else np.where(b == 0, a / b, result)


ufunc_rule(np.divmod)(lambda a, b: (np.floor_divide(a, b), np.remainder(a, b)))


@ufunc_rule(np.modf)
def _modf(x: Array) -> tuple[Array, ...]:
    whole = np.trunc(x)
    return x - whole, whole


# ---------------------------------------------------------------- comparisons


def _compare(op: str) -> TracingRule:
    def rule(a: Array, b: Array) -> Array:
        if op == "Equal" and a.dtype == BOOL:
            return binary(op, a, b, BOOL)
        if op in ("Less", "Greater") and value_of(a) is value_of(b):  # also for NaN
            return np.zeros_like(a, BOOL)
        return binary(op, to_native(a), to_native(b), BOOL)

    return rule


_equal = ufunc_rule(np.equal)(_compare("Equal"))
ufunc_rule(np.less)(_compare("Less"))
ufunc_rule(np.less_equal)(_compare("LessOrEqual"))
ufunc_rule(np.greater)(_compare("Greater"))
ufunc_rule(np.greater_equal)(_compare("GreaterOrEqual"))
ufunc_rule(np.not_equal)(lambda a, b: unary("Not", _equal(a, b)))


def _logical(op: str) -> TracingRule:
    return lambda a, b: binary(op, cast(a, BOOL), cast(b, BOOL))


ufunc_rule(np.logical_and)(_logical("And"))
ufunc_rule(np.logical_or)(_logical("Or"))
ufunc_rule(np.logical_xor)(_logical("Xor"))
ufunc_rule(np.logical_not)(lambda x: unary("Not", cast(x, BOOL)))


def _bitwise(op: str) -> TracingRule:
    return lambda a, b: binary(op if a.dtype == BOOL else f"Bitwise{op}", a, b)


ufunc_rule(np.bitwise_and)(_bitwise("And"))
ufunc_rule(np.bitwise_or)(_bitwise("Or"))
ufunc_rule(np.bitwise_xor)(_bitwise("Xor"))
ufunc_rule(np.invert)(lambda x: unary("Not" if x.dtype == BOOL else "BitwiseNot", x))


# ------------------------------------------------------------- tests of floats


def _never(x: Array) -> Array:
    return np.zeros(x.shape, bool) if is_static(x.shape) else x != x


ufunc_rule(np.isnan)(lambda x: unary("IsNaN", to_native(x), BOOL) if x.dtype.kind == "f" else _never(x))
ufunc_rule(np.isinf)(lambda x: unary("IsInf", to_native(x), BOOL) if x.dtype.kind == "f" else _never(x))
ufunc_rule(np.isfinite)(lambda x: (x - x) == 0 if x.dtype.kind == "f" else ~_never(x))
ufunc_rule(np.signbit)(lambda x: (x < 0) | ((x == 0) & (1 / x < 0)))
ufunc_rule(np.copysign)(lambda a, b: np.where(np.signbit(b), -np.abs(a), np.abs(a)))


@ufunc_rule(np.heaviside)
def _heaviside(x: Array, at_zero: Array) -> Array:
    number = x.dtype.type
    positive = np.where(x > 0, number(1), x)  # NaN stays NaN
    return np.where(x == 0, at_zero, np.where(x < 0, number(0), positive))


# ---------------------------------------------------------------- selection


def _ignoring_nan(ufunc: np.ufunc) -> TracingRule:
    def rule(a: Array, b: Array) -> Any:
        both = ufunc(a, b)
        if a.dtype.kind != "f":
            return both
        return np.where(np.isnan(a), b, np.where(np.isnan(b), a, both))

    return rule


ufunc_rule(np.fmax)(_ignoring_nan(np.maximum))
ufunc_rule(np.fmin)(_ignoring_nan(np.minimum))


CLIP: np.ufunc = np._core.umath.clip  # type: ignore[attr-defined]  # absent from NumPy's types
"""The ufunc that np.clip calls."""


@ufunc_rule(CLIP)
def _clip(x: Array, low: Array, high: Array) -> Any:
    if x.dtype in NATIVE and is_constant(low) and is_constant(high) and low.ndim == high.ndim == 0 and low <= high:
        return record("Clip", [x, low, high], x.shape, x.dtype)
    return np.minimum(np.maximum(x, low), high)


# -------------------------------------------------------- functions of two arrays


@ufunc_rule(np.hypot)
@_in_engine_dtype
def _hypot(a: Array, b: Array) -> Any:
    """Compute sqrt(a * a + b * b), divided by the larger magnitude first, so that no square overflows."""
    number = a.dtype.type
    sizes = np.abs(a), np.abs(b)
    large = np.maximum(*sizes)
    ratio = np.minimum(*sizes) / np.where(large == 0, number(1), large)
    infinite = (sizes[0] == np.inf) | (sizes[1] == np.inf)
    return np.where(infinite, number(np.inf), large * np.sqrt(1 + ratio * ratio))


@ufunc_rule(np.arctan2)
@_in_engine_dtype
def _arctan2(y: Array, x: Array) -> Array:
    number = y.dtype.type
    flat = x == 0
    angle = np.arctan(y / np.where(flat, number(1), x))
    turn = np.copysign(number(math.pi), y)
    on_axis = np.where(y == 0, np.where(np.signbit(x), turn, y), np.sign(y) * number(math.pi / 2))
    return np.where(flat, on_axis, np.where(x < 0, angle + turn, angle))


def _distance(a: Array, b: Array) -> Array:
    """Return |a - b|, and 0 where both are the same infinity."""
    return np.abs(np.where(a == b, a.dtype.type(0), a - b))


def _log_of_sum(share: Callable[[Array], Array]) -> TracingRule:
    """Return the rule of logaddexp: the larger number, and the logarithm of 1 + the power of the distance."""
    return _in_engine_dtype(lambda a, b: np.maximum(a, b) + share(-_distance(a, b)))


ufunc_rule(np.logaddexp)(_log_of_sum(lambda x: np.log1p(np.exp(x))))
ufunc_rule(np.logaddexp2)(_log_of_sum(lambda x: np.log2(1 + np.exp2(x))))


@ufunc_rule(np.ldexp)
def _ldexp(x: Array, n: Array) -> Array:
    limits = np.finfo(x.dtype)
    rest, two = cast(n, np.int64), x.dtype.type(2)
    for _ in range(3):  # no factor is infinite or 0; together they shift any number out of the dtype
        part = np.clip(rest, limits.minexp, limits.maxexp - 1)
        x = x * np.power(two, cast(part, x.dtype))
        rest = rest - part
    return x


def where(mask: Array, a: Array, b: Array) -> Array:
    """Record np.where of a boolean mask and two arrays of one dtype.

    For booleans, And and Or are used, because not every engine supports Where for them.
    """
    if a.dtype == BOOL and not (is_constant(mask) and is_constant(a) and is_constant(b)):
        return (mask & a) | (~mask & b)
    return select(mask, a, b)


def refuse_ufuncs(*ufuncs: np.ufunc | None) -> None:
    """Register rules that refuse ufuncs which ONNX operators cannot express."""

    def rule(name: str) -> TracingRule:
        def refuse(*_: object) -> NoReturn:
            raise refusal(f"np.{name} cannot be expressed in ONNX operators; use other NumPy functions")

        return refuse

    for ufunc in ufuncs:
        if ufunc is not None:
            ufunc_rule(ufunc)(rule(ufunc.__name__))


refuse_ufuncs(np.gcd, np.lcm, np.frexp, np.nextafter, np.spacing, getattr(np, "bitwise_count", None))
