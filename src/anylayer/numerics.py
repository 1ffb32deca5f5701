"""Differences between arrays, the tolerances for them, and seeded noise to compare on."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from anylayer.network import Array, DType, TensorType

TOLERANCE = {"float32": 1e-5, "float64": 1e-6, "float16": 3e-3}
"""The tolerance for one operator or layer, by dtype, relative to the largest absolute value of an output. Integers
and booleans must be equal."""
DEEP_TOLERANCE = 1e-4
"""The tolerance for a float32 network in which many layers sum up many values, relative to the largest absolute
value of an output."""
DEEP_HALF_TOLERANCE = 1e-2
"""The same for a network that computes in float16, whose values have 11 bits."""
INT8_TOLERANCE = 0.2
"""The root mean square error of an output of a network that computes in int8, relative to the output's root mean
square."""
_MIN_SHARE = 0.01
"""An array tells little if the share of values other than the most frequent one is smaller."""
_MIN_SCALE = 1e-6
"""The scale of an output whose values are all smaller."""


def tolerance_for(dtype: DType, *, deep: bool = False) -> float:
    """Return the tolerance for an output of a dtype: of one layer, or of a network with many layers (`deep`).

    float64 has the tolerance of float32, because some engines compute it in float32.
    """
    if dtype == np.float16:
        return DEEP_HALF_TOLERANCE if deep else TOLERANCE["float16"]
    return DEEP_TOLERANCE if deep else TOLERANCE["float32"]


def largest(array: Array) -> float:
    """Return the largest absolute value of an array; 0.0 where it has no finite value."""
    value = float(np.abs(array).max(initial=0.0))
    return value if math.isfinite(value) else float(np.abs(array[np.isfinite(array)]).max(initial=0.0))


def scale_of(*arrays: Array) -> float:
    """Return the largest absolute value of some arrays, at least 1e-6, as the scale of errors."""
    return max([_MIN_SCALE, *map(largest, arrays)])


def absolute_errors(got: Array, want: Array) -> Array:
    """Return |got - want| in float64 for two arrays of the same shape.

    An error is 0 where both are the same infinity or both are NaN, and infinite where only one of them is NaN.
    """
    with np.errstate(invalid="ignore", over="ignore"):
        errors = np.asarray(np.abs(got.astype(np.float64) - want.astype(np.float64)))
    if np.isnan(errors).any():
        errors[np.isnan(errors)] = np.inf
        errors[(got == want) | (np.isnan(got) & np.isnan(want))] = 0
    return errors


def largest_error(got: Array, want: Array) -> float:
    """Return the largest of the absolute errors of two arrays of the same shape; 0.0 where they are empty."""
    return float(absolute_errors(got, want).max(initial=0.0))


def difference_text(error: float, scale: float) -> str:
    """Return how far an output differs, for a report: "largest difference 1e-05, largest value 4"."""
    return f"largest difference {error:.3g}, largest value {scale:.3g}"


NAN = "other values are NaN"
"""The text that `difference` returns if NaN occurs at different positions."""


def difference(actual: Array, want: Array, *, half: bool = False, loose: bool = False) -> str:
    """Return how an output of a network differs from NumPy's beyond rounding; "" where it does not.

    The tolerance of floats is 1e-4 of the largest value, and 1e-2 for float16. Infinite values and other dtypes
    must be equal.

    half: whether intermediate values are float16. loose: allow other values than infinite ones, and one in a
    thousand integers or booleans to differ, because rounding may change them.
    """
    if actual.shape != want.shape:
        return f"shape {actual.shape}, expected {want.shape}"
    if want.dtype.kind != "f":
        wrong = int(np.count_nonzero(actual != want))
        return f"{wrong} of {want.size} values" if wrong > (want.size // 1000 if loose else 0) else ""
    if not np.array_equal(np.isnan(actual), np.isnan(want)):
        return NAN
    compared = np.isfinite(want) if loose else ...
    error, scale = largest_error(actual[compared], want[compared]), scale_of(want)
    tolerance = tolerance_for(np.dtype(np.float16) if half else want.dtype, deep=True)
    return difference_text(error, scale) if error > tolerance * scale else ""


def tells_enough(array: Array, step: float) -> bool:
    """Return whether a comparison of an array says something: it has values that follow from the inputs.

    It does not where it is empty, or where nearly all values are the same up to `step`, which is what saturation,
    constants and the filling of unused rows look like. One or two values suffice where they are not 0, 1 or -1.
    """
    values = array.astype(np.float64).ravel()
    levels = np.round(np.where(np.isfinite(values), values, 0) / (step or 1))
    if not levels.size:
        return False
    low, high = levels.min(), levels.max()
    if ((levels == low) | (levels == high)).all():
        different = 1 + int(high > low)
        return values.size == different and not {*np.abs(values).round(6).tolist()} <= {0.0, 1.0}
    if np.count_nonzero(levels[1:] != levels[:-1]) >= 2 * _MIN_SHARE * levels.size:
        return True  # each value that is not the usual one makes at most two changes between neighbors
    middle = levels.size // 2
    usual = np.partition(levels, middle)[middle]  # a level that more than half of the values have
    return bool(np.count_nonzero(levels != usual) >= _MIN_SHARE * levels.size)


def rms_scale(array: Array) -> float:
    """Return the root mean square of an array's finite values, at least 1e-6."""
    finite = array[np.isfinite(array)].astype(np.float64)
    return max(_MIN_SCALE, float(np.sqrt(np.square(finite).mean()))) if finite.size else _MIN_SCALE


def rms_error(got: Array, want: Array) -> float:
    """Return the root mean square of the errors of two arrays of the same shape; 0.0 where they are empty."""
    return float(np.sqrt(np.square(absolute_errors(got, want)).mean())) if want.size else 0.0


def normal_noise(types: Iterable[TensorType], seed: int = 0, *, integers: int = 2) -> list[Array]:
    """Return an array for each type: normal values of variance 1 for floats, and integers below `integers` for
    other dtypes. 0 and 1 are indices that most tables have."""
    random = np.random.default_rng(seed)
    return [
        random.standard_normal(kind.shape, np.float32).astype(kind.dtype)
        if kind.dtype.kind == "f"
        else random.integers(0, integers, kind.shape).astype(kind.dtype)
        for kind in types
    ]


def uniform_noise(
    types: Iterable[TensorType], seed: int = 0, *, integers: int = 2, highest: float = 1
) -> list[Array]:
    """Return an array for each type: uniform floats from 0 to `highest`, or integers below `integers`."""
    random = np.random.default_rng(seed)
    return [
        (random.random(kind.shape, np.float32) * np.float32(highest)).astype(kind.dtype)
        if kind.dtype.kind == "f"
        else random.integers(0, integers, kind.shape).astype(kind.dtype)
        for kind in types
    ]


def integer_ranges(types: Iterable[TensorType]) -> tuple[int, ...]:
    """Return the ranges of integers with which a comparison on noise is done, one after the other.

    With integers, a wide range follows, for example for a square, which is the same for 0 and 1. A function may
    refuse it, since it may use integers as indices.
    """
    return (2, 10) if any(kind.dtype.kind in "iu" for kind in types) else (2,)
