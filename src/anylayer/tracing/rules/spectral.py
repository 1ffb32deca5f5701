"""Fourier transforms of static lengths as products with constant matrices, and complex arrays.

A complex array is a pair of real arrays, because engines have no complex numbers: it must end in real ones.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.graph.place import refusal
from anylayer.graph.sizes import numpy_axis
from anylayer.graph.symbolic import as_index, is_symbolic
from anylayer.network import Array, DType, Function
from anylayer.tracing.array import Composite, selected
from anylayer.tracing.dispatch import implements
from anylayer.tracing.dtypes import python_type, weak
from anylayer.tracing.operators import install
from anylayer.tracing.rules.concatenation import array_like

_MAX_LENGTH = 4096
"""The largest length of a transform. Its matrix has about as many elements as its square."""
_REAL_ONLY = "complex numbers must end in real ones: use .real, .imag, np.abs or np.angle"


PARTS: dict[DType, DType] = {
    np.dtype(np.complex64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.float64),
}
"""The dtypes of complex arrays, and those of their real and imaginary parts."""


class ComplexPair(Composite):
    """A complex array as its real and its imaginary part, which are views of it."""

    __slots__ = ("_imag", "_real")

    def __init__(self, real: Any, imag: Any) -> None:
        self._real, self._imag = real, imag

    @property
    def real(self) -> Any:
        return self._real

    @real.setter
    def real(self, value: Any) -> None:
        self._real[...] = value

    @property
    def imag(self) -> Any:
        return self._imag

    @imag.setter
    def imag(self, value: Any) -> None:
        self._imag[...] = value

    @property
    def dtype(self) -> DType:
        return np.dtype(np.complex64 if self.real.dtype == np.float32 else np.complex128)

    @property
    def shape(self) -> tuple[Any, ...]:
        return tuple(self.real.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return int(self.real.size)

    @property
    def T(self) -> ComplexPair:
        return ComplexPair(self.real.T, self.imag.T)

    def __len__(self) -> int:
        return len(self.real)

    def __bool__(self) -> bool:
        raise refusal(f"a complex array has no truth value in a recording; {_REAL_ONLY}")

    def __getitem__(self, key: Any) -> ComplexPair:
        return ComplexPair(self.real[key], self.imag[key])

    def __setitem__(self, key: Any, value: Any) -> None:
        pair = _as_pair(value, self.real.dtype)
        self.real[key] = pair.real
        self.imag[key] = pair.imag

    def __array__(self, *args: Any, **kwargs: Any) -> Array:
        raise refusal(f"a complex array has no values yet; {_REAL_ONLY}")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"'numpy.ndarray' object has no attribute '{name}'")
        if name in ("conj", "conjugate"):
            return lambda: np.conjugate(self)
        if name not in _LINEAR:
            raise refusal(f"ndarray.{name} of a complex array cannot be recorded; {_REAL_ONLY}")
        return lambda *args, **kwargs: _of_both(lambda x: getattr(x, name)(*args, **kwargs), self, name, kwargs)

    def __array_function__(self, func: Function, types: Any, args: Any, kwargs: Any) -> Any:
        args = selected(tuple(args))
        x = args[0] if args else None
        if func in _JOINING and not kwargs.keys() & {"dtype", "out"} and {*map(type, args[0])} == {ComplexPair}:
            return ComplexPair(*(func([getattr(z, p) for z in args[0]], *args[1:], **kwargs) for p in _PARTS))
        if func is np.where or (type(x) is ComplexPair and func in _OF_PAIRS):
            return _OF_PAIRS[func](*args, **kwargs)
        if type(x) is not ComplexPair or func.__name__ not in _LINEAR:
            raise refusal(f"np.{func.__name__} of a complex array cannot be recorded; {_REAL_ONLY}")
        return _of_both(lambda part: func(part, *args[1:], **kwargs), x, func.__name__, kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", (None,))
        if method != "__call__" or kwargs or type(out[0]) not in (ComplexPair, type(None)):
            raise refusal(f"np.{ufunc.__name__} of a complex array cannot be recorded; {_REAL_ONLY}")
        result = of_complex(ufunc, *inputs)
        if out[0] is None:
            return result
        out[0][...] = result
        return out[0]


install(ComplexPair, lambda z: bool(z.real._scalar))


def complex_array(real: Array, imag: Array) -> Any:
    """Return a complex array of a real and an imaginary part."""
    return ComplexPair(real, imag)


def _of_both(function: Callable[[Any], Any], z: ComplexPair, name: str, keywords: Any) -> ComplexPair:
    """Call a function that computes the real and the imaginary part alike."""
    for keyword in ("dtype", "initial", "out"):
        if keyword in keywords:
            raise refusal(f"{name}(..., {keyword}=) of a complex array cannot be recorded; {_REAL_ONLY}")
    return ComplexPair(function(z.real), function(z.imag))


def of_complex(ufunc: np.ufunc, *inputs: object) -> object:
    """Return the result of a ufunc for arrays and numbers, one of which is complex."""
    if ufunc is np.matmul:
        return product_of_complex(np.matmul, *inputs)
    rule = _UFUNCS.get(ufunc)
    if rule is None:
        raise refusal(f"np.{ufunc.__name__} of complex numbers cannot be recorded; {_REAL_ONLY}")
    return _elementwise(rule, *inputs)


def _elementwise(rule: Function, *inputs: Any) -> Any:
    """Call a rule with its inputs as pairs of the dtype in which NumPy computes."""
    operands = [x if weak(x) or type(x) is ComplexPair else array_like(x) for x in map(selected, inputs)]
    dtype = np.result_type(*(python_type(x)() if weak(x) else x.dtype for x in operands))
    result = rule(*(_as_pair(x, np.float32 if dtype == np.complex64 else np.float64) for x in operands))
    if type(result) is ComplexPair and getattr(result.imag, "shape", ()) != result.real.shape:
        imag = result.real.dtype.type(result.imag) if weak(result.imag) else result.imag
        return ComplexPair(result.real, np.broadcast_to(imag, result.real.shape).copy())
    return result


def _as_pair(x: Any, dtype: Any) -> ComplexPair:
    """Return a number or an array as a pair of `dtype`. The imaginary part of a real one is the integer 0."""
    x = selected(x)
    if type(x) is complex:
        return ComplexPair(x.real, x.imag)
    if weak(x):
        return ComplexPair(x, 0)
    if type(x) is not ComplexPair:
        x = array_like(x)
        if x.dtype.kind != "c":
            return ComplexPair(_cast(x, dtype), 0)
    return ComplexPair(_cast(x.real, dtype), _cast(x.imag, dtype))


def _cast(x: Any, dtype: Any) -> Any:
    return x if x.dtype == dtype else x.astype(dtype)


def _product(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    if type(b.imag) is int:
        return ComplexPair(a.real * b.real, a.imag * b.real)
    if type(a.imag) is int:
        return ComplexPair(a.real * b.real, a.real * b.imag)
    return ComplexPair(a.real * b.real - a.imag * b.imag, a.real * b.imag + a.imag * b.real)


def _quotient(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    if type(b.imag) is int:
        return ComplexPair(a.real / b.real, a.imag / b.real)
    size = b.real * b.real + b.imag * b.imag
    product = _product(a, ComplexPair(b.real, -b.imag))
    return ComplexPair(product.real / size, product.imag / size)


def _exponential(a: ComplexPair) -> ComplexPair:
    size = np.exp(a.real)
    return ComplexPair(size * np.cos(a.imag), size * np.sin(a.imag))


def _power(a: ComplexPair, b: ComplexPair) -> ComplexPair:
    if type(b.real) is not int or b.real != 2 or type(b.imag) is not int:
        raise refusal(f"a complex array to another power than 2 cannot be recorded; {_REAL_ONLY}")
    return _product(a, a)


_UFUNCS: dict[np.ufunc, Function] = {
    np.add: lambda a, b: ComplexPair(a.real + b.real, a.imag + b.imag),
    np.subtract: lambda a, b: ComplexPair(a.real - b.real, a.imag - b.imag),
    np.multiply: _product,
    np.divide: _quotient,
    np.power: _power,
    np.square: lambda a: _product(a, a),
    np.exp: _exponential,
    np.log: lambda a: ComplexPair(np.log(np.hypot(a.real, a.imag)), np.arctan2(a.imag, a.real)),
    np.positive: lambda a: ComplexPair(a.real.copy(), a.imag.copy()),
    np.negative: lambda a: ComplexPair(-a.real, -a.imag),
    np.conjugate: lambda a: ComplexPair(a.real.copy(), -a.imag),
    np.equal: lambda a, b: (a.real == b.real) & (a.imag == b.imag),
    np.not_equal: lambda a, b: (a.real != b.real) | (a.imag != b.imag),
    np.absolute: lambda a: np.hypot(a.real, a.imag),
}
_PARTS = ("real", "imag")
_JOINING = (np.concatenate, np.stack, np.vstack, np.hstack)
_LINEAR = frozenset((
    "reshape", "transpose", "swapaxes", "moveaxis", "expand_dims", "squeeze", "ravel", "flatten", "copy", "sum",
    "mean", "flip", "take", "cumsum",
))  # fmt: skip
"""The functions of NumPy that compute the real and the imaginary part alike."""


def product_of_complex(function: Callable[[Any, Any], Any], a: Any, b: Any) -> ComplexPair:
    """Return a function of two arrays that is linear in each, at least one of which is complex."""
    a, b = (x if type(x) is ComplexPair else array_like(x) for x in (a, b))
    products: dict[bool, list[Any]] = {}
    for p, x in _parts_of(a).items():
        for q, y in _parts_of(b).items():
            products.setdefault(p == q, []).append(-function(x, y) if p == q == "imag" else function(x, y))
    return ComplexPair(*(functools.reduce(operator.add, products[is_real]) for is_real in (True, False)))


def _parts_of(x: Any) -> dict[str, Any]:
    """Return the real and, of a complex array, the imaginary part."""
    return {p: getattr(x, p) for p in _PARTS if x.dtype.kind == "c" or p == "real"}


def _matrices(rows: int, columns: int, n: int, dtype: Any) -> tuple[Array, Array]:
    """Return the cosines and sines of 2*pi*j*k/n for j of the rows and k of the columns."""
    turns = np.outer(np.arange(rows), np.arange(columns)) % n
    angle = 2 * np.pi / n * turns
    sines = np.where(2 * turns % n == 0, 0, np.sin(angle))  # 0 exactly, as in NumPy, at whole halves of a turn
    return np.cos(angle).astype(dtype), sines.astype(dtype)


def _argument(x: Any, n: Any, axis: int, default: Callable[[int], int]) -> tuple[Any, int, int]:
    """Return the argument of a transform with its axis last, the axis and the length of the transform."""
    x = x if type(x) is ComplexPair else array_like(x)
    axis = numpy_axis(axis, x.ndim)
    length = default(x.shape[axis]) if n is None else n
    length = as_index(length)
    if is_symbolic(length) or not 0 < length <= _MAX_LENGTH:
        raise refusal(
            f"a Fourier transform is recorded with a length from 1 to {_MAX_LENGTH} that is no open size, "
            f"got {length}; give it n="
        )
    if type(x) is not ComplexPair:
        x = _cast(x, np.float32 if x.dtype in (np.float16, np.float32) else np.float64)
    return np.moveaxis(x, axis, -1) if type(x) is not ComplexPair else _move_axis(x, axis, -1), axis, length


def _move_axis(x: ComplexPair, source: int, target: int) -> ComplexPair:
    return ComplexPair(np.moveaxis(x.real, source, target), np.moveaxis(x.imag, source, target))


def _fit(x: Any, n: int) -> Any:
    """Return an array cut or padded with zeros to length `n` along its last axis."""
    missing = n - x.shape[-1]
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(0, missing)]) if missing > 0 else x[..., :n]


def _scale(n: int, norm: str | None, inverse: bool) -> float:
    """Return the factor of a transform for the `norm` of np.fft."""
    if norm == "ortho":
        return float(n**-0.5)
    if norm not in (None, "backward", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward","ortho" or "forward".')
    return 1 / n if inverse == (norm != "forward") else 1.0


def _transform(half: bool, inverse: bool) -> Function:
    """Return the rule of np.fft.fft, ifft or rfft, which has half of the columns."""

    def rule(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> ComplexPair:
        x, place, length = _argument(a, n, axis, lambda d: d)
        if half and type(x) is ComplexPair:
            raise TypeError("np.fft.rfft takes real numbers")
        parts = [_fit(p, length) for p in ((x.real, x.imag) if type(x) is ComplexPair else (x,))]
        cosines, sines = _matrices(length, length // 2 + 1 if half else length, length, parts[0].dtype)
        scale = parts[0].dtype.type(_scale(length, norm, inverse))
        cosines, sines = cosines * scale, (sines if inverse else -sines) * scale
        pair = ComplexPair(parts[0] @ cosines, parts[0] @ sines)
        if len(parts) > 1:
            pair = ComplexPair(pair.real - parts[1] @ sines, pair.imag + parts[1] @ cosines)
        return _move_axis(pair, -1, place)

    return rule


def _irfft(a: Any, n: Any = None, axis: int = -1, norm: str | None = None) -> Array:
    x, place, length = _argument(a, n, axis, lambda d: 2 * (d - 1))
    count = length // 2 + 1
    pair = x if type(x) is ComplexPair else ComplexPair(x, x * x.dtype.type(0))
    real, imag = _fit(pair.real, count), _fit(pair.imag, count)
    cosines, sines = _matrices(count, length, length, np.float64)
    twice = np.full((count, 1), 2.0)
    twice[0] = 1
    if length % 2 == 0:
        twice[-1] = 1
    twice *= _scale(length, norm, True)
    result = real @ (cosines * twice).astype(real.dtype) - imag @ (sines * twice).astype(real.dtype)
    return np.moveaxis(result, -1, place)


def _where(condition: Any, *choices: Any) -> Any:
    if len(choices) != 2 or type(condition) is ComplexPair:
        raise refusal(f"np.where(z) with a complex array z cannot be recorded; {_REAL_ONLY}")

    def rule(a: ComplexPair, b: ComplexPair) -> ComplexPair:
        return ComplexPair(np.where(condition, a.real, b.real), np.where(condition, a.imag, b.imag))

    return _elementwise(rule, *choices)


_OF_PAIRS: dict[Function, Function] = {
    np.fft.fft: _transform(False, False),
    np.fft.ifft: _transform(False, True),
    np.fft.irfft: _irfft,
    np.angle: lambda z: np.arctan2(z.imag, z.real),
    np.real: lambda z: z.real,
    np.imag: lambda z: z.imag,
    np.where: _where,
}
implements(np.fft.rfft)(_transform(True, False))
implements(np.fft.fft)(_OF_PAIRS[np.fft.fft])
implements(np.fft.ifft)(_OF_PAIRS[np.fft.ifft])
implements(np.fft.irfft)(_irfft)
