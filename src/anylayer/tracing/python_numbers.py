"""Python's numbers whose values are known only when the network runs: int(x), float(x), x.item(), x.sum() > 1.

A PythonNumber computes as Python's numbers do, and takes the dtype of an array that it is combined with, as they
do. What needs its value, such as a size or a key of a dict, is refused. Integers have 64 bits.
"""

from __future__ import annotations

import math
import operator
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np

from anylayer import tracing
from anylayer.graph.intervals import Intervals, inside, of_dtype
from anylayer.graph.place import may_decide_by_text, refusal
from anylayer.graph.sized import sized_array
from anylayer.graph.sizes import stand_for
from anylayer.graph.symbolic import Size, SizeReal, is_symbolic, plain
from anylayer.network import Array
from anylayer.tracing.array import TracedArray, copy_of

Scalar = Any
"""A number, or an array of rank 0: plain, symbolic or traced."""

_DTYPES: Mapping[type, Any] = {bool: np.dtype(bool), int: np.dtype(np.int64), float: np.dtype(np.float64)}
_KINDS: Mapping[Any, type] = {bool: bool, int: int, float: float, Size: int, SizeReal: float}
_MAX_POWER = 4
"""The largest exponent of an integer, because integers have 64 bits."""
_MAX_SHIFT = 63


def _binary(
    function: Callable[[Scalar, Scalar], Scalar], *, divides: bool = False, real: bool = False
) -> tuple[Any, Any]:
    """Return the methods `a op b` and `b op a` of an operator of numbers."""

    def compute(a: Scalar, b: Scalar) -> Scalar:
        kinds = kind_of(a), kind_of(b)
        if None in kinds:
            return NotImplemented
        kind = float if real or float in kinds else int
        x, y = as_dtype_of(a, kind), as_dtype_of(b, kind)
        if divides:
            tracing.decisions.may_raise(lambda: y == 0, ZeroDivisionError("division by zero"))
        return number(function(x, y), kind)

    return compute, lambda b, a: compute(a, b)


def _comparison(function: Callable[[Scalar, Scalar], Scalar]) -> Scalar:
    def compute(a: Scalar, b: Scalar) -> Scalar:
        kinds = kind_of(a), kind_of(b)
        if None in kinds:
            return NotImplemented
        kind = float if float in kinds else int
        return number(function(as_dtype_of(a, kind), as_dtype_of(b, kind)), bool)

    return compute


def _bitwise(function: Callable[[Scalar, Scalar], Scalar]) -> Scalar:
    def compute(a: Scalar, b: Scalar) -> Scalar:
        kinds = kind_of(a), kind_of(b)
        if None in kinds or float in kinds:
            return NotImplemented
        kind = bool if kinds == (bool, bool) else int
        return number(function(as_dtype_of(a, kind), as_dtype_of(b, kind)), kind)

    return compute


def _power(a: Scalar, b: Scalar, modulus: Scalar = None) -> Scalar:
    kinds = kind_of(a), kind_of(b)
    if None in kinds or modulus is not None:
        return NotImplemented
    if float in kinds or (type(b) is int and b < 0):
        return number(np.power(as_dtype_of(a, float), as_dtype_of(b, float)), float)
    if type(b) is int and b <= _MAX_POWER:
        return number(math.prod([as_dtype_of(a, int)] * b, start=np.ones((), np.int64)), int)
    raise refusal(
        f"an integer to the power of {b if type(b) is int else 'a number that depends on data'} may have more "
        "than 64 bits; write float(a) ** b"
    )


def _shift(a: Scalar, b: Scalar, function: Any) -> Scalar:
    if float in (kind_of(a), kind_of(b)) or None in (kind_of(a), kind_of(b)):
        return NotImplemented
    if type(b) is not int or not 0 <= b < _MAX_SHIFT:
        raise refusal("a shift by a number that depends on data cannot be recorded; write float(a) * 2.0 ** b")
    return number(function(as_dtype_of(a, int), np.int64(b)), int)


class PythonNumber:
    """A Python number whose value is known only when the network runs.

    kind: int, float or bool. array: the value, an array of rank 0 of int64, float64 or bool.
    """

    __slots__ = ("array", "kind")

    def __init__(self, array: TracedArray, kind: type) -> None:
        self.array, self.kind = array, kind

    __add__, __radd__ = _binary(np.add)
    __sub__, __rsub__ = _binary(np.subtract)
    __mul__, __rmul__ = _binary(np.multiply)
    __truediv__, __rtruediv__ = _binary(np.true_divide, divides=True, real=True)
    __floordiv__, __rfloordiv__ = _binary(np.floor_divide, divides=True)
    __mod__, __rmod__ = _binary(np.remainder, divides=True)
    __lt__, __le__, __gt__ = _comparison(np.less), _comparison(np.less_equal), _comparison(np.greater)
    __ge__, __eq__, __ne__ = _comparison(np.greater_equal), _comparison(np.equal), _comparison(np.not_equal)
    __and__ = __rand__ = _bitwise(np.bitwise_and)
    __or__ = __ror__ = _bitwise(np.bitwise_or)
    __xor__ = __rxor__ = _bitwise(np.bitwise_xor)
    __pow__ = _power

    def __rpow__(self, other: Scalar, modulus: Scalar = None) -> Scalar:
        return _power(other, self, modulus)

    def __divmod__(self, other: Scalar) -> Scalar:
        return self // other, self % other

    def __rdivmod__(self, other: Scalar) -> Scalar:
        return other // self, other % self

    def __lshift__(self, other: Scalar) -> Scalar:
        return _shift(self, other, np.left_shift)

    def __rshift__(self, other: Scalar) -> Scalar:
        return _shift(self, other, np.right_shift)

    def __rlshift__(self, other: Scalar) -> Scalar:
        return _shift(other, self, np.left_shift)

    __rrshift__ = __rlshift__

    def __neg__(self) -> Scalar:
        return self._same(np.negative)

    def __pos__(self) -> Scalar:
        return self._same(lambda x: x)

    def __abs__(self) -> Scalar:
        return self._same(np.absolute)

    def __invert__(self) -> Scalar:
        if self.kind is float:
            raise TypeError("bad operand type for unary ~: 'float'")
        return self._same(np.invert)

    def _same(self, function: Callable[[Scalar], Scalar]) -> Scalar:
        """Return a function of the number, whose result has its type; that of a bool is an int."""
        kind = int if self.kind is bool else self.kind
        return number(function(as_dtype_of(self, kind)), kind)

    def __bool__(self) -> bool:
        return tracing.decisions.truth(self.array)

    def __round__(self, digits: Scalar = None) -> Scalar:
        if self.kind is not float and (digits is None or digits >= 0):
            return +self
        if digits is not None:
            raise refusal("round(x, digits) of a Python number cannot be recorded; write np.round(x, digits)")
        return to_int(np.rint(self.array))

    def __floor__(self) -> Scalar:
        return to_int(np.floor(self.array) if self.kind is float else self.array)

    def __ceil__(self) -> Scalar:
        return to_int(np.ceil(self.array) if self.kind is float else self.array)

    def __trunc__(self) -> Scalar:
        return to_int(self.array)

    def is_integer(self) -> Scalar:
        """Return whether the number has no fraction."""
        x = as_dtype_of(self, float)
        return number((np.trunc(x) == x) & (np.abs(x) < np.inf), bool)

    # ---------------------------------------------------------------- with arrays

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Scalar:
        return self.array.__array_ufunc__(ufunc, method, *inputs, **kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Scalar:
        return self.array.__array_function__(function, types, args, kwargs)

    def as_dtype(self, dtype: Any) -> Array:
        """Return the number as an array of rank 0, converted as NumPy converts a Python number."""
        dtype = np.dtype(dtype)
        if self.kind is int and dtype.kind in "iu" and (dtype.itemsize < 4 or dtype.kind == "u"):
            interval = Intervals(self.array._graph.producers).of(self.array._value)
            if not inside(interval, of_dtype(dtype)):
                low, high = of_dtype(dtype)
                raise refusal(
                    f"int(x) may be outside of {dtype.name}, where NumPy raises OverflowError; write "
                    f"min(max(int(x), {low}), {high}), or np.int64(x) to compute in int64"
                )
        result: Array = self.array.astype(dtype)
        return result

    # ----------------------------------------------------------- what needs the value

    @property  # isinstance(x, int) must be true
    def __class__(self) -> type:
        return self.kind

    @__class__.setter
    def __class__(self, cls: type) -> None:
        raise TypeError("the __class__ of a number that depends on data cannot be set")

    def __hash__(self) -> int:
        raise refusal(
            "a number that depends on data, such as int(x), cannot be a key of a dict or an element of a set; "
            "make the values of the dict an array, and write array[n]"
        )

    def __index__(self) -> int:
        if self.kind is float:
            raise TypeError("'float' object cannot be interpreted as an integer")
        raise tracing.causes.index_refusal(self.array)

    def __int__(self) -> int:
        raise tracing.causes.index_refusal(self.array)

    def __float__(self) -> float:
        raise tracing.causes.float_refusal(self.array)

    def __complex__(self) -> complex:
        return complex(self.array)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise tracing.causes.array_refusal(self.array)

    def __repr__(self) -> str:
        if self.array._graph.strict and may_decide_by_text(sys._getframe(1)):
            raise tracing.causes.text_refusal(self.array)
        return repr(self.array)

    def __format__(self, spec: str) -> str:
        return format(self.array, spec)

    def __reduce__(self) -> NoReturn:
        self.array.__reduce__()
        raise AssertionError

    def __copy__(self) -> PythonNumber:
        return self

    def __deepcopy__(self, memo: Any) -> PythonNumber:
        return self

    def __getattr__(self, name: str) -> Scalar:
        if not name.startswith("_") and hasattr(self.kind, name):
            what = f"{self.kind.__name__}.{name} of a number that depends on data"
            raise refusal(f"{what} cannot be recorded; keep it an array")
        raise AttributeError(f"'{self.kind.__name__}' object has no attribute '{name}'")


def kind_of(x: Scalar) -> type | None:
    """Return the Python type of a number, and None for anything that is not a Python number."""
    return x.kind if type(x) is PythonNumber else _KINDS.get(type(x))


def number(x: Scalar, kind: type) -> Scalar:
    """Return an array of rank 0 as a Python number: a plain one if it is a constant."""
    const = x._const() if type(x) is TracedArray else x
    if const is not None:
        return kind(const)
    result = copy_of(x)
    result._scalar = True
    return PythonNumber(result, kind)


def as_dtype_of(x: Scalar, kind: type) -> Scalar:
    """Return a Python number as an array of rank 0 of the dtype of another kind of number."""
    if type(x) is PythonNumber:
        return x.array if x.kind is kind else x.array.astype(_DTYPES[kind])
    if is_symbolic(x):
        return tracing.size_arithmetic.hold(tracing.running_graph(), sized_array([x], _DTYPES[kind], ()))
    if type(x) is int and kind is int and not -(2**63) <= x < 2**63:
        raise refusal(f"the integer {x} has more than 64 bits; compute with floats")
    return np.asarray(x, _DTYPES[kind])


# -------------------------------------------------------------- conversion of arrays


def to_int(x: Scalar) -> Scalar:
    """Return int(x) of a number, or of an array of one element: the number without its fraction."""
    array = _single(x)
    if array.dtype.kind == "f":
        raises = tracing.decisions.may_raise
        raises(lambda: np.isnan(array), ValueError("cannot convert float NaN to integer"))
        raises(lambda: np.isinf(array), OverflowError("cannot convert float infinity to integer"))
    elif array.dtype == np.uint64:
        raise refusal("int() of a uint64 may have more than 63 bits; write x.astype(np.int64)")
    return number(array.astype(np.int64), int)


def to_float(x: Scalar) -> Scalar:
    """Return float(x) of a number, or of an array of one element."""
    return number(_single(x).astype(np.float64), float)


def item(x: TracedArray) -> Scalar:
    """Return the element of an array of one element as a Python number."""
    if x.size != 1:
        raise ValueError("can only convert an array of size 1 to a Python scalar")
    element: Any = x.reshape(())
    if x.dtype.kind == "b":
        return number(element, bool)
    return (to_float if x.dtype.kind == "f" else to_int)(element)


def _single(x: Scalar) -> Scalar:
    array: Any = as_arrays(x)
    if array.ndim:
        float(np.zeros(plain(stand_for(array.shape))))  # raises TypeError where NumPy does
        array = array.reshape(())
    return array


def as_arrays(x: Scalar) -> Scalar:
    """Return an argument with each number that depends on data as an array of int64, float64 or bool."""
    if type(x) is PythonNumber:
        return x.array
    return type(x)(map(as_arrays, x)) if type(x) in (tuple, list) else x


def as_key(key: Any) -> Scalar:
    """Return a key of x[key] with arrays of rank 0 in place of numbers that depend on data."""
    if type(key) is PythonNumber:
        if key.kind is float:
            raise IndexError(
                "only integers, slices (`:`), ellipsis (`...`), numpy.newaxis (`None`) and integer or boolean "
                "arrays are valid indices"
            )
        return key.array
    if type(key) in (tuple, list):
        return type(key)(map(as_key, key))
    if type(key) is slice and any(type(k) is PythonNumber for k in (key.start, key.stop, key.step)):
        return slice(as_key(key.start), as_key(key.stop), as_key(key.step))
    return key


def extreme_of(name: str, values: Sequence[Any]) -> Scalar:
    """Return Python's max or min of numbers, some of which depend on data, or None where their types differ."""
    replaces = operator.gt if name == "max" else operator.lt
    arrays = [x for x in values if type(x) is TracedArray]
    if arrays:
        if any(x.ndim or x.dtype != arrays[0].dtype for x in arrays):
            return None
        if not all(type(x) is TracedArray or is_exact(x, arrays[0].dtype) for x in values):
            return None
        values = [x if type(x) is TracedArray else np.asarray(x, arrays[0].dtype) for x in values]
    elif None in map(kind_of, values):
        return None
    best = values[0]
    for x in values[1:]:
        if arrays:
            best = np.where(replaces(x, best), x, best)[()]
            continue
        kind = float if float in (kind_of(x), kind_of(best)) else int
        if kind is int:  # the intervals of these operators are known
            best = number(
                (np.maximum if name == "max" else np.minimum)(as_dtype_of(x, int), as_dtype_of(best, int)), int
            )
            continue
        chosen: Any = np.where(
            getattr(replaces(x, best), "array", replaces(x, best)), as_dtype_of(x, kind), as_dtype_of(best, kind)
        )
        best = number(chosen, kind)
    return best


def is_exact(x: Scalar, dtype: Any, *, strict: bool = False) -> bool:
    """Return whether a plain number is the same number in a dtype, but for the rounding of a float that is not
    `strict`.
    """
    if type(x) not in (int, float) or (type(x) is float and dtype.kind != "f"):
        return False
    try:
        y = np.asarray(x, dtype)
        return bool((y.item() if strict else y) == x) or x != x
    except OverflowError:
        return False


# ---------------------------------------------------------------------- the module math


def _math(function: Any, replacement: Callable[..., Scalar], fails: Callable[..., Scalar] | None = None) -> Scalar:
    """Return a function of the module math that also takes numbers that depend on data.

    replacement: the function for arrays of float64. fails: returns whether the original raises ValueError.
    """

    def rule(*args: Any) -> Scalar:
        if not any(type(x) is PythonNumber or (type(x) is TracedArray and x._const() is None) for x in args):
            return function(*(x.fix() if is_symbolic(x) else x for x in args))
        numbers = [
            as_dtype_of(to_float(x) if type(x) in (PythonNumber, TracedArray) else float(x), float) for x in args
        ]
        if fails is not None:
            tracing.decisions.may_raise(lambda: fails(*numbers), ValueError("math domain error"))
        result: Any = replacement(*numbers)
        if result.dtype == bool:
            return number(result, bool)
        finite = [np.isfinite(x) for x in numbers]
        tracing.decisions.may_raise(
            lambda: (
                np.logical_and.reduce(np.stack([np.asarray(f, like=result) for f in finite])) & np.isinf(result)
            ),
            OverflowError("math range error"),
        )
        return number(result, float)

    return rule


def _logarithm(function: Callable[[Scalar], Scalar]) -> Callable[..., Scalar]:
    return lambda x, base=None: function(x) if base is None else function(x) / function(base)


MATH: Mapping[Any, Any] = {
    math.sqrt: _math(math.sqrt, np.sqrt, lambda x: x < 0),
    math.log: _math(math.log, _logarithm(np.log), lambda x, base=1: (x <= 0) | (base <= 0)),
    math.log2: _math(math.log2, np.log2, lambda x: x <= 0),
    math.log10: _math(math.log10, np.log10, lambda x: x <= 0),
    math.log1p: _math(math.log1p, np.log1p, lambda x: x <= -1),
    math.asin: _math(math.asin, np.arcsin, lambda x: np.abs(x) > 1),
    math.acos: _math(math.acos, np.arccos, lambda x: np.abs(x) > 1),
    math.pow: _math(math.pow, np.power, lambda x, y: ((x < 0) & (np.floor(y) != y)) | ((x == 0) & (y < 0))),
    **{
        getattr(math, name): _math(getattr(math, name), getattr(np, name))
        for name in (
            *("exp", "expm1", "sin", "cos", "tan", "sinh", "cosh", "tanh", "hypot", "fabs", "copysign"),
            *("degrees", "radians", "isnan", "isinf", "isfinite"),
        )
    },
    math.atan: _math(math.atan, np.arctan),
    math.atan2: _math(math.atan2, np.arctan2),
}
"""Function of the module math -> its substitute."""
