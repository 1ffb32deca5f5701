"""Sorting, searching and order statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from anylayer.graph.place import refusal
from anylayer.graph.sizes import numpy_axes, numpy_axis
from anylayer.network import Array
from anylayer.tracing.dispatch import implements
from anylayer.tracing.dtypes import BOOL, I8
from anylayer.tracing.primitives import AxisArg, cast, ints, to_native, transpose
from anylayer.tracing.record import record_many
from anylayer.tracing.rules.concatenation import array_like


def _top_k(x: Array, axis: int) -> list[Array]:
    """Return the values and indices of an axis in ascending order. Of equal values, the lower index comes first.

    A negation before it stays, because NaN is last in both orders.
    """
    types = [(x.shape, x.dtype), (x.shape, I8)]
    return list(record_many("TopK", [x, ints(x.shape[axis])], types, axis=axis, largest=0, sorted=1))


@implements(np.sort)
def sort(a: Array, axis: AxisArg = -1, kind: object = None, order: object = None, *, stable: object = None) -> Any:
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = numpy_axis(axis, a.ndim)
    if a.dtype == BOOL:
        n = a.shape[axis]
        places = np.arange(n).reshape([n if i == axis else 1 for i in range(a.ndim)])
        return places >= n - np.sum(a, axis, keepdims=True)
    return cast(_top_k(to_native(a), axis)[0], a.dtype)


@implements(np.argsort)
def argsort(
    a: Any, axis: AxisArg = -1, kind: object = None, order: object = None, *, stable: object = None
) -> Array:
    if kind not in ("stable", "mergesort") and not stable:
        a._graph.note(
            "np.argsort leaves the order of equal values undefined; here the lower index comes first, as with "
            'kind="stable"'
        )
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = numpy_axis(axis, a.ndim)
    return _top_k(to_native(a), axis)[1]


implements(np.partition)(lambda a, kth, axis=-1, kind=None, order=None: sort(a, axis))
implements(np.argpartition)(lambda a, kth, axis=-1, kind=None, order=None: argsort(a, axis))


@implements(np.searchsorted)
def searchsorted(a: ArrayLike, v: ArrayLike, side: str = "left", sorter: Any = None) -> Any:
    if sorter is not None:
        a = np.take(array_like(a), sorter)
    a, v = array_like(a), array_like(v)
    wide = np.expand_dims(v, -1)
    above = wide <= a if side == "left" else wide < a
    return (~above).sum(-1, dtype=np.int64)  # NaN sorts last


@implements(np.digitize)
def digitize(x: Array, bins: Any, right: bool = False) -> Any:
    if not isinstance(bins, np.ndarray) or bins.__class__ is not type(bins):
        bins = np.asarray(bins)
    steps = np.diff(bins)
    if (steps >= 0).all():
        return searchsorted(bins, x, "left" if right else "right")
    if (steps <= 0).all():
        return np.int64(len(bins)) - searchsorted(bins[::-1], x, "left" if right else "right")
    raise ValueError("bins must be monotonically increasing or decreasing")


def _sorted_last(a: Array, axis: AxisArg) -> tuple[Array, tuple[int, ...]]:
    """Merge the reduced axes into one last axis. Return `a` sorted along it, and the reduced axes."""
    axes = numpy_axes(axis, a.ndim)
    rest = [i for i in range(a.ndim) if i not in axes]
    moved = transpose(a, [*rest, *axes])
    return np.sort(moved.reshape((*moved.shape[: len(rest)], -1)), -1), axes


def _float(a: Array) -> Array:
    return a if a.dtype.kind == "f" else a.astype(np.float64)


@implements(np.median)
def median(a: Array, axis: AxisArg = None, overwrite_input: bool = False, keepdims: bool = False) -> Array:
    ordered, axes = _sorted_last(_float(a), axis)
    n = ordered.shape[-1]
    middle = ordered[..., (n - 1) // 2 : n // 2 + 1].mean(-1)
    return np.expand_dims(middle, axes) if keepdims else middle


@implements(np.quantile)
def quantile(
    a: Array,
    q: Array,
    axis: AxisArg = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Any = None,
) -> Array:
    if method != "linear" or weights is not None:
        raise refusal("np.quantile and np.percentile are recorded with method='linear' and without weights only")
    q = np.asarray(q, a.dtype) if isinstance(q, (int, float)) and a.dtype.kind == "f" else np.asarray(q)
    if not ((q >= 0) & (q <= 1)).all():
        raise ValueError("Quantiles must be in the range [0, 1]")
    if q.dtype.kind in "iub" and a.dtype.kind != "f":
        raise refusal("np.quantile of integers with an integer q selects a value; write np.min or np.max")
    a = _float(a)
    q = q.astype(a.dtype) if q.dtype.kind in "iub" else q
    ordered, axes = _sorted_last(a, axis)
    at = np.asarray(q * (ordered.shape[-1] - 1))
    low = np.floor(at).astype(np.int64)
    t = (at - low).astype(q.dtype)
    first = ordered[..., low]
    second = ordered[..., np.minimum(low + 1, ordered.shape[-1] - 1)]
    result = np.where(t < 0.5, first + (second - first) * t, second - (second - first) * (1 - t))
    if q.ndim:
        result = np.moveaxis(result, tuple(range(-q.ndim, 0)), tuple(range(q.ndim)))
    return np.expand_dims(result, tuple(i + q.ndim for i in axes)) if keepdims else result


@implements(np.percentile)
def percentile(a: Array, q: Array, *arguments: Any, **options: Any) -> Array:
    share = np.true_divide(q, a.dtype.type(100) if a.dtype.kind == "f" else 100)
    return quantile(a, share, *arguments, **options)
