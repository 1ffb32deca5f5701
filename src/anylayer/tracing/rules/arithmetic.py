"""NumPy functions that are short compositions of other NumPy functions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anylayer.graph.place import refusal
from anylayer.graph.sizes import numpy_axis
from anylayer.network import Array
from anylayer.tracing.array import TracingRule
from anylayer.tracing.dispatch import implements
from anylayer.tracing.dtypes import BOOL
from anylayer.tracing.primitives import AxisArg, cast, slices
from anylayer.tracing.rules.concatenation import array_like
from anylayer.tracing.rules.selecting import take

_NONE: Any = np._NoValue


@implements(np.round, np.around)
def round_(a: ArrayLike, decimals: int = 0) -> Any:
    a = array_like(a)
    if a.dtype.kind in "iu":
        if decimals < 0:
            raise refusal(
                "np.round of integers to negative decimals cannot be recorded; write x.astype(np.float64) first"
            )
        return a
    if decimals == 0 or a.dtype == BOOL:
        return np.rint(a)
    if a.dtype == np.float16:
        return cast(round_(cast(a, np.float32), decimals), a.dtype)
    m = a.dtype.type(10 ** abs(decimals))
    return np.rint(a * m) / m if decimals > 0 else np.rint(a / m) * m


implements(np.fix)(lambda x: np.trunc(x))


@implements(np.diff)
def diff(a: ArrayLike, n: int = 1, axis: int = -1, prepend: Any = _NONE, append: Any = _NONE) -> Array:
    if n < 0:
        raise ValueError(f"order must be non-negative but got {n}")
    a = array_like(a)
    axis = numpy_axis(axis, a.ndim)
    ends = [None if e is _NONE else _end_values(array_like(e), a, axis) for e in (prepend, append)]
    parts = [p for p in (ends[0], a, ends[1]) if p is not None]
    a = np.concatenate(parts, axis) if len(parts) > 1 else a
    for _ in range(n):
        size = a.shape[axis]
        later, earlier = slices(a, [(axis, 1, size - 1, 1)]), slices(a, [(axis, 0, size - 1, 1)])
        a = later != earlier if a.dtype == BOOL else later - earlier
    return a


def _end_values(value: Array, a: Array, axis: int) -> Array:
    """Return the prepend= or append= of np.diff, broadcast like `a` with size 1 along `axis` if it is a scalar."""
    if value.ndim == 0:
        return np.broadcast_to(value, [1 if i == axis else d for i, d in enumerate(a.shape)])
    return value


@implements(np.ediff1d)
def ediff1d(ary: ArrayLike, to_end: Any = None, to_begin: Any = None) -> Array:
    flat = array_like(ary).reshape(-1)
    parts = [array_like(to_begin)] if to_begin is not None else []
    parts.append(flat[1:] - flat[:-1])
    parts += [array_like(to_end)] if to_end is not None else []
    return np.concatenate([cast(p.reshape(-1), flat.dtype) for p in parts])


@implements(np.gradient)
def gradient(f: Array, *varargs: Any, axis: AxisArg = None, edge_order: int = 1) -> Array | tuple[Array, ...]:
    if edge_order != 1 or any(np.ndim(v) for v in varargs) or len(varargs) > 1:
        raise refusal("np.gradient is recorded with one scalar spacing and edge_order=1 only")
    f = f if f.dtype.kind == "f" else f.astype(np.float64)
    axes = range(f.ndim) if axis is None else [axis] if isinstance(axis, int) else axis
    step = f.dtype.type(varargs[0] if varargs else 1)
    results = []
    for i in axes:
        g = np.moveaxis(f, i, 0)
        inner = (g[2:] - g[:-2]) / (2 * step)
        differences = np.concatenate([(g[1:2] - g[:1]) / step, inner, (g[-1:] - g[-2:-1]) / step])
        results.append(np.moveaxis(differences, 0, i))
    return results[0] if len(results) == 1 else tuple(results)


@implements(getattr(np, "trapezoid", None))
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: Any = 1.0, axis: int = -1) -> Any:
    y = np.moveaxis(array_like(y), axis, -1)
    if x is None:
        width = dx
    else:
        x = array_like(x)
        width = np.diff(x) if x.ndim == 1 else np.moveaxis(np.diff(x, axis=axis), axis, -1)
    return (width * (y[..., 1:] + y[..., :-1]) / 2.0).sum(-1)


@implements(np.nan_to_num)
def nan_to_num(x: ArrayLike, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Array:
    x = array_like(x)
    if not copy:
        raise refusal("np.nan_to_num(..., copy=False) cannot be recorded; use what it returns")
    if x.dtype.kind != "f":
        return x
    info = np.finfo(x.dtype)
    number = x.dtype.type
    x = np.where(np.isnan(x), number(nan), x)
    x = np.where(x == np.inf, number(info.max if posinf is None else posinf), x)
    return np.where(x == -np.inf, number(info.min if neginf is None else neginf), x)


implements(np.isposinf)(lambda x: x == np.inf)
implements(np.isneginf)(lambda x: x == -np.inf)
implements(np.isreal)(lambda x: np.ones(x.shape, bool))
implements(np.iscomplex)(lambda x: np.zeros(x.shape, bool))
implements(np.real_if_close)(lambda a, tol=100: a)


@implements(np.sinc)
def sinc(x: Array) -> Array:
    x = x if x.dtype.kind == "f" else x.astype(np.float64)
    y = np.pi * np.where(x == 0, x.dtype.type(1e-20) if x.dtype != np.float16 else x.dtype.type(1e-4), x)
    return np.sin(y) / y


@implements(np.angle)
def angle(z: Array, deg: bool = False) -> Array:
    z = z.astype(np.arctan2.resolve_dtypes((int, z.dtype, None))[-1])
    turned = np.where(np.isnan(z), z, np.where(np.signbit(z), z.dtype.type(np.pi), z.dtype.type(0)))
    return turned * (180 / np.pi) if deg else turned


@implements(np.interp)
def interp(
    x: Array, xp: Array, fp: Array, left: Array | None = None, right: Array | None = None, period: object = None
) -> Array:
    if period is not None:
        raise refusal("np.interp(..., period=) cannot be recorded; apply the period to x and xp first")
    x, xp, fp = (cast(array_like(v), np.float64) for v in (x, xp, fp))
    n = xp.shape[0]
    at = np.clip(np.searchsorted(xp, x, "right") - 1, 0, max(n - 2, 0))
    x0, y0 = take(xp, at), take(fp, at)
    after = np.minimum(at + 1, n - 1)
    x1, y1 = take(xp, after), take(fp, after)
    width = np.where(x1 == x0, 1.0, x1 - x0)
    y = y0 + (y1 - y0) / width * (x - x0)
    y = np.where(x < xp[0], fp[0] if left is None else left, y)
    return np.where(x >= xp[-1], np.where(x > xp[-1], fp[-1] if right is None else right, fp[-1]), y)


@implements(np.polyval)
def polyval(p: ArrayLike, x: ArrayLike) -> Any:
    p, x = array_like(p), array_like(x)
    y: Any = np.zeros_like(x)
    for i in range(p.shape[0]):
        y = y * x + p[i]
    return y


# ------------------------------------------------------------ functions that ignore NaN


def _without_nan(function: Any, neutral: Any) -> TracingRule:
    """Return a rule that calls `function` with NaN replaced by `neutral`."""

    def rule(a: Array, axis: AxisArg = None, **kwargs: Any) -> Any:
        if a.dtype.kind == "f":
            a = np.where(np.isnan(a), a.dtype.type(neutral), a)
        return function(a, axis, **kwargs)

    return rule


implements(np.nansum)(_without_nan(np.sum, 0))
implements(np.nanprod)(_without_nan(np.prod, 1))
implements(np.nanmax)(_without_nan(np.max, -np.inf))
implements(np.nanmin)(_without_nan(np.min, np.inf))
implements(np.nancumsum)(_without_nan(np.cumsum, 0))


@implements(np.nanmean)
def nanmean(a: Array, axis: AxisArg = None, *, keepdims: bool = False) -> Any:
    if a.dtype.kind != "f":
        return np.mean(a, axis, keepdims=keepdims)
    count = (~np.isnan(a)).sum(axis, keepdims=keepdims)
    return np.nansum(a, axis, keepdims=keepdims) / cast(count, a.dtype)
