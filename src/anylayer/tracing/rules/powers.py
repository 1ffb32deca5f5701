"""Powers and shifts. Integer results are exact modulo 2^bits, as in NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.graph.sizes import broadcast
from anylayer.network import Array
from anylayer.tracing.array import TracingRule
from anylayer.tracing.dispatch import ufunc_rule
from anylayer.tracing.dtypes import F4, I8, NATIVE
from anylayer.tracing.primitives import binary, cast, expand, gather, is_constant, to_native
from anylayer.tracing.record import current_graph


@ufunc_rule(np.power, np.float_power)
def _power(a: Array, b: Array) -> Array:
    exponent = b.flat[0].item() if is_constant(b) and b.size and (b == b.flat[0]).all() else None
    if exponent is not None and broadcast(a.shape, b.shape) == a.shape:
        short = _short_power(a, exponent)
        if short is not None:
            return short
    if a.dtype.kind == "f":
        native = a.dtype if a.dtype in NATIVE else F4
        return cast(binary("Pow", cast(a, native), cast(b, native)), a.dtype)
    if is_constant(b) and (b < 0).any():
        raise ValueError("Integers to negative integer powers are not allowed.")
    graph = current_graph.get()
    if not is_constant(b) and b.dtype.kind == "i" and graph is not None:
        graph.note("NumPy refuses integers to negative integer powers; this is not checked when the network runs")
    return _by_bits(a, b)


def _by_bits(a: Array, b: Array) -> Array:
    """Return an integer power by repeated squaring: a square per bit of the exponent, a product per set bit."""
    bits = int(b.max(initial=0)).bit_length() if is_constant(b) else 8 * b.dtype.itemsize - (b.dtype.kind == "i")
    dtype, shape = a.dtype, broadcast(a.shape, b.shape)
    square, left = to_native(a), to_native(b)
    result: Any = np.ones((), square.dtype)
    for i in range(bits):
        result = np.where(left % 2 == 1, result * square, result)
        if i < bits - 1:
            # `left` is not negative. A square that no remaining bit needs becomes 0, because it could overflow.
            left = left // 2 if is_constant(left) else binary("Div", left, np.asarray(2, left.dtype))
            square = np.where(left > 0, square, 0)
            square = square * square
    return cast(expand(result, shape), dtype)


def _short_power(a: Array, n: float) -> Array | None:
    """Return a power with a simpler form, such as x * x, or None if there is none."""
    if a.dtype.kind == "f":
        simple: dict[float, Callable[[], Array]] = {
            0: lambda: np.ones_like(a),
            1: lambda: a,
            2: lambda: a * a,
            3: lambda: a * a * a,
            -1: lambda: 1 / a,
            0.5: lambda: np.sqrt(a),
        }
        return simple[n]() if n in simple else None
    if n < 0:
        raise ValueError("Integers to negative integer powers are not allowed.")
    if n == 0 or n > 64:
        return np.ones_like(a) if n == 0 else None
    result, square = None, a
    while n:
        if n % 2:
            result = square if result is None else result * square
        n //= 2
        square = square * square if n else square
    return result


# --------------------------------------------------------------------- shifts


def _power_of_two(n: Array) -> Array:
    """Return 2 ** n in int64, for n from 0 to 63. For a traced n, it is read from a table."""
    if is_constant(n):
        return np.left_shift(np.int64(1), n.astype(np.int64))
    return gather(np.left_shift(np.int64(1), np.arange(64)), n, 0)


def _shift(shifted: Callable[[Array, Array], Array], beyond: Callable[[Array], Array]) -> TracingRule:
    """Return a rule for shifts by 0 to bits - 1. For any other count, NumPy returns `beyond`."""

    def rule(a: Array, n: Array) -> Array:
        bits = 8 * a.dtype.itemsize
        wide, count = cast(a, I8), cast(n, I8)
        inside = (count >= 0) & (count < bits)
        if is_constant(inside) and inside.all():
            return cast(shifted(wide, count), a.dtype)
        native = np.where(inside, count, 0)
        return cast(np.where(inside, shifted(wide, native), beyond(wide)), a.dtype)

    return rule


def _shifted_right(a: Array, n: Array) -> Array:
    """Return `a` shifted right by `n`: the quotient by 2 ** n, rounded down.

    It is computed in two steps where `n` may be 63, because 2 ** 63 is negative in int64.
    """
    if is_constant(n) and (n < 63).all():
        return np.floor_divide(a, _power_of_two(n))
    half = n // 2
    return np.floor_divide(np.floor_divide(a, _power_of_two(half)), _power_of_two(n - half))


ufunc_rule(np.left_shift)(_shift(lambda a, n: a * _power_of_two(n), np.zeros_like))
ufunc_rule(np.right_shift)(_shift(_shifted_right, lambda a: np.where(a < 0, np.int64(-1), np.int64(0))))
