"""Functions that select elements: where, select, clip, take, triangles, diagonals and tests of closeness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from anylayer import tracing
from anylayer.graph.intervals import Intervals
from anylayer.graph.place import refusal
from anylayer.graph.sizes import broadcast, numpy_axis
from anylayer.graph.symbolic import as_index, is_symbolic
from anylayer.network import MAX_VALUES, Array
from anylayer.tracing.array import TracedArray
from anylayer.tracing.dispatch import converted, elementwise, implements
from anylayer.tracing.dtypes import BOOL, I8, as_operand, common_dtype, weak
from anylayer.tracing.keys import OUTSIDE
from anylayer.tracing.primitives import (
    AxisArg,
    arange,
    as_array,
    cast,
    expand,
    gather,
    gather_elements,
    is_constant,
    scatter,
)
from anylayer.tracing.record import running_graph
from anylayer.tracing.rules import ufuncs
from anylayer.tracing.rules.concatenation import array_like

_NONE: Any = np._NoValue


@implements(np.where)
def where(condition: ArrayLike, x: Any = None, y: Any = None, /) -> Any:
    if x is None and y is None:
        return nonzero(condition)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    a, b = as_operand(array_like(x) if type(x) is list else x), as_operand(array_like(y) if type(y) is list else y)
    dtype = common_dtype(a, b)
    a, b = (as_array(v, dtype) if weak(v) else cast(v, dtype) for v in (a, b))
    mask = cast(array_like(condition), BOOL)
    return expand(ufuncs.where(mask, a, b), broadcast(mask.shape, a.shape, b.shape))


@implements(np.select)
def select(condlist: Sequence[ArrayLike], choicelist: Sequence[Any], default: Any = 0) -> Array:
    if len(condlist) != len(choicelist):
        raise ValueError("list of cases must be same length as list of conditions")
    choices = [as_operand(c) for c in choicelist]
    dtype = common_dtype(*choices, as_operand(default))
    shape = broadcast(*[x.shape for x in (*map(array_like, condlist), *map(array_like, choices))])
    result = expand(cast(array_like(default), dtype), shape)
    for mask, choice in zip(condlist[::-1], choices[::-1]):
        result = where(mask, cast(array_like(choice), dtype), result)
    return result


@implements(np.choose)
def choose(a: ArrayLike, choices: Any, mode: str = "raise") -> Array:
    dtype = common_dtype(*map(as_operand, choices))
    options = [array_like(c) for c in choices]
    a = _in_range(array_like(a), len(options), mode)
    result = expand(cast(options[0], dtype), broadcast(a.shape, *[o.shape for o in options]))
    for i, option in enumerate(options[1:], 1):
        result = where(a == i, cast(option, dtype), result)
    return result


@implements(np.clip)
def clip(
    a: ArrayLike, a_min: Any = _NONE, a_max: Any = _NONE, *, min: Any = _NONE, max: Any = _NONE, **kwargs: Any
) -> Any:
    low, high = (w if v is _NONE else v for v, w in ((a_min, min), (a_max, max)))
    low, high = (None if v is _NONE else v for v in (low, high))
    a = array_like(a)
    if a.dtype.kind in "iu":
        info = np.iinfo(a.dtype)
        low = None if type(low) is int and low <= info.min else low
        high = None if type(high) is int and high >= info.max else high
    if low is None and high is None:
        return np.positive(a)
    if low is None:
        return elementwise(np.minimum, (a, high), **kwargs)
    if high is None:
        return elementwise(np.maximum, (a, low), **kwargs)
    return elementwise(ufuncs.CLIP, (a, low, high), **kwargs)


# ---------------------------------------------------------- selection by index


def _in_range(indices: Array, size: int, mode: str) -> Array:
    """Return indices that are in range: clipped, wrapped or unchanged, as the `mode` of np.take says."""
    if mode == "clip":
        indices = np.clip(indices, 0, size - 1)
    elif mode == "wrap":
        indices = indices % size
    elif type(indices) is TracedArray:
        indices._graph.note("indices that depend on data are not checked when this runs; np.clip them to be safe")
    else:
        if indices.size and (indices.min() < -size or indices.max() >= size):
            raise IndexError(f"index {indices.max()} is out of bounds for axis of size {size}")
        indices = np.where(indices < 0, indices + size, indices)
    return indices


@implements(np.take)
def take(a: ArrayLike, indices: ArrayLike, axis: AxisArg = None, mode: str = "raise") -> Any:
    a, indices = array_like(a), array_like(indices)
    if indices.dtype.kind not in "iub" or (is_constant(indices) and indices.size == 0):
        indices = indices.astype(np.int64)
    if axis is None:
        a, axis = a.reshape(-1), 0
    axis = numpy_axis(axis, a.ndim)
    indices = _in_range(cast(indices, I8), a.shape[axis], mode)
    if is_constant(indices) and indices.ndim == 1:
        key: tuple[Any, ...] = (*[slice(None)] * axis, indices)
        return a[key]
    return gather(a, indices, axis)


@implements(np.nonzero)
def nonzero(a: ArrayLike) -> Any:
    return tracing.counts.positions(array_like(a))


@implements(np.flatnonzero)
def flatnonzero(a: ArrayLike) -> Array:
    return tracing.counts.positions(array_like(a).reshape(-1))[0]


@implements(np.argwhere)
def argwhere(a: ArrayLike) -> Array:
    return np.stack(tracing.counts.positions(array_like(a)), axis=-1)


@implements(np.extract)
def extract(condition: ArrayLike, arr: ArrayLike) -> Any:
    return take(array_like(arr).reshape(-1), flatnonzero(condition))


@implements(np.compress)
def compress(condition: ArrayLike, a: ArrayLike, axis: AxisArg = None) -> Any:
    return take(a, flatnonzero(condition), axis)


def _broadcast_except(arr: Array, indices: Array, axis: int) -> tuple[Array, Array]:
    """Return both arrays broadcast against each other on the axes other than `axis`."""
    if arr.ndim != indices.ndim:
        raise ValueError("`indices` and `arr` must have the same number of dimensions")
    one = [1 if i == axis else d for i, d in enumerate(arr.shape)]
    other = [1 if i == axis else d for i, d in enumerate(indices.shape)]
    shape = list(broadcast(one, other))
    shape[axis] = arr.shape[axis]
    arr = expand(arr, shape)
    shape[axis] = indices.shape[axis]
    return arr, expand(indices, shape)


@implements(np.take_along_axis)
def take_along_axis(arr: Any, indices: Any, axis: AxisArg = -1) -> Array:
    arr, indices = array_like(arr), array_like(indices)
    if axis is None:
        arr, axis = arr.reshape(-1), 0
    if indices.dtype.kind not in "iu":
        raise IndexError("`indices` must be an integer array")
    axis = numpy_axis(axis, arr.ndim)
    arr, indices = _broadcast_except(arr, cast(indices, I8), axis)
    return gather_elements(arr, _in_range(indices, arr.shape[axis], "raise"), axis)


@implements(np.put_along_axis, raw=True)
def put_along_axis(arr: Array, indices: Any, values: Any, axis: AxisArg) -> None:
    if type(arr) is not TracedArray:
        raise refusal(
            "np.put_along_axis writes a traced array into a NumPy array; make that array with np.zeros_like(x) or "
            "np.zeros(shape, dtype, like=x)"
        )
    target: Any = arr.reshape(-1) if axis is None else arr
    axis = numpy_axis(0 if axis is None else axis, target.ndim)
    content = target._resolved()
    indices = cast(indices._resolved() if type(indices) is TracedArray else array_like(indices), I8)
    content, indices = _broadcast_except(content, indices, axis)
    values = expand(converted(values, arr.dtype), indices.shape)
    if all(map(is_constant, (content, indices, values))):
        content = content.copy()
        np.put_along_axis(content, indices, values, axis)
        target._assign(content)
        return
    arr._graph.note("where indices repeat, it is undefined which of the written values stays")
    target._assign(scatter(content, indices, values, axis))


# ------------------------------------------------------ triangles and diagonals


def _lower_triangle(m: Array, k: int) -> Array:
    """Return the mask of the elements of `m` on and below diagonal `k`."""
    rows, columns = m.shape[-2:] if m.ndim > 1 else (m.shape[0], m.shape[0])
    return arange(columns) <= arange(rows)[:, None] + k


implements(np.tril)(lambda m, k=0: where(_lower_triangle(m, k), m, np.zeros((), m.dtype)))
implements(np.triu)(lambda m, k=0: where(_lower_triangle(m, k - 1), np.zeros((), m.dtype), m))


@implements(np.diag)
def diag(v: Array, k: int = 0) -> Any:
    if v.ndim == 2:
        return np.diagonal(v, k)
    if v.ndim != 1:
        raise ValueError("Input must be 1- or 2-d.")
    n = v.shape[0] + abs(k)
    spread = np.pad(v, (max(k, 0), max(-k, 0)))
    return where(np.eye(n, k=k, dtype=bool), spread, np.zeros((), v.dtype))


implements(np.diagflat)(lambda v, k=0: diag(v.reshape(-1), k))


@implements(np.trace)
def trace(a: Array, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: DTypeLike | None = None) -> Array:
    return np.sum(np.diagonal(a, offset, axis1, axis2), -1, dtype=dtype)


implements(np.linalg.trace)(lambda x, /, *, offset=0, dtype=None: trace(x, offset, -2, -1, dtype))


@implements(np.fill_diagonal, raw=True)
def fill_diagonal(a: Array, val: Any, wrap: bool = False) -> None:
    if wrap or type(a) is not TracedArray:
        raise refusal(
            "np.fill_diagonal of a NumPy array, or with wrap=True, cannot be recorded; use np.where and np.eye"
        )
    steps = np.arange(min(a.shape))
    a[(steps,) * a.ndim] = val


@implements(np.putmask, raw=True)
def putmask(a: Array, /, mask: Array, values: Any) -> None:
    if type(a) is not TracedArray:
        raise refusal("np.putmask writes a traced array into a NumPy array; use np.where")
    v = array_like(values)
    if v.shape not in ((), (1,), a.shape):
        raise refusal("np.putmask with fewer values than elements repeats them; use np.where")
    a[...] = np.where(mask, v.astype(a.dtype), a)


@implements(np.place, raw=True)
def place(arr: TracedArray, mask: Array, vals: Any) -> None:
    if np.size(vals) != 1:
        raise refusal("np.place with several values writes them one after the other; use np.where")
    putmask(arr, mask, array_like(vals).reshape(()))


# --------------------------------------------------------------- closeness


@implements(np.isclose)
def isclose(
    a: ArrayLike, b: ArrayLike, rtol: float | Array = 1e-5, atol: float | Array = 1e-8, equal_nan: bool = False
) -> Any:
    a, b = array_like(a), array_like(b)
    close = (np.abs(a - b) <= atol + rtol * np.abs(b)) & np.isfinite(b) | (a == b)
    return close | (np.isnan(a) & np.isnan(b)) if equal_nan else close


@implements(np.allclose)
def allclose(
    a: Array, b: Array, rtol: float | Array = 1e-5, atol: float | Array = 1e-8, equal_nan: bool = False
) -> Any:
    return np.all(isclose(a, b, rtol, atol, equal_nan))


@implements(np.array_equal)
def array_equal(a1: ArrayLike, a2: ArrayLike, equal_nan: bool = False) -> Any:
    a1, a2 = array_like(a1), array_like(a2)
    return False if a1.shape != a2.shape else np.all(a1 == a2)


@implements(np.isin)
def isin(
    element: ArrayLike,
    test_elements: Any,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: object = None,
) -> Any:
    element, tests = array_like(element), array_like(test_elements).reshape(-1)
    matches = (np.expand_dims(element, -1) == tests).any(-1)
    return ~matches if invert else matches


def _refuse_dynamic_size(name: str) -> Any:
    """Return a rule that refuses a function whose result has a size that depends on data."""

    def rule(*_: object, **__: object) -> NoReturn:
        raise refusal(
            f"np.{name} has a size that is known only when the network runs; use np.where(mask, a, b), or let the "
            "layer run in Python"
        )

    return rule


for _name in ("unique_all", "unique_counts", "unique_inverse", "unique_values", "setxor1d", "trim_zeros", "ix_"):
    implements(getattr(np, _name, None))(_refuse_dynamic_size(_name))


@implements(np.unique)
def unique(
    ar: Array,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: AxisArg = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    """Sort, and select the first of equal elements."""
    if axis is not None and ar.ndim > 1:
        raise refusal("np.unique of rows (axis=) cannot be recorded; give each row one number, and use np.unique")
    flat = ar.reshape(-1)
    n = flat.shape[0]
    parts: list[Any] = [flat, None, None, None]
    if not is_symbolic(n) and n < 2:
        one = np.arange(n)
        parts = [flat, one, one.reshape(ar.shape), np.ones(n, np.int64)]
    else:
        order = np.argsort(flat, kind="stable")
        ordered, place = flat[order], arange(n)
        before = ordered[np.maximum(place - 1, 0)]
        differs = ordered != before
        if equal_nan and flat.dtype.kind == "f":
            differs = differs & ~(np.isnan(ordered) & np.isnan(before))
        first = differs | (place == 0)
        starts = tracing.counts.positions(first)[0]
        if not is_symbolic(n):
            tracing.counts.need_element(starts.shape[0])
        parts[:2] = ordered[starts], order[starts]
        if return_inverse:
            group = np.cumsum(first) - 1
            parts[2] = scatter(np.zeros_like(group), order, group, 0).reshape(ar.shape)
        if return_counts:
            parts[3] = np.concatenate([starts, as_array(n, I8).reshape(1)])[1:] - starts
    results = [x for x, asked in zip(parts, (True, return_index, return_inverse, return_counts)) if asked]
    return results[0] if len(results) == 1 else tuple(results)


def _members(a: Any, b: Any, *, common: bool) -> Array:
    """Return the sorted distinct elements of `a` that are in `b` (common=True), or that are not in `b`."""
    values = np.unique(array_like(a))
    return np.compress(isin(values, b, invert=not common), values)


@implements(np.setdiff1d)
def setdiff1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    if not assume_unique:
        return _members(ar1, ar2, common=False)
    values = array_like(ar1).reshape(-1)
    return np.compress(isin(values, ar2, invert=True), values)


@implements(np.intersect1d)
def intersect1d(ar1: Any, ar2: Any, assume_unique: bool = False) -> Array:
    a, b = array_like(ar1), array_like(ar2)
    dtype = common_dtype(a, b)
    return _members(cast(a, dtype), cast(b, dtype), common=True)


implements(np.union1d)(lambda ar1, ar2: np.unique(np.concatenate([array_like(x).reshape(-1) for x in (ar1, ar2)])))


@implements(np.bincount)
def bincount(x: Array, /, weights: Any = None, minlength: Any = 0) -> Array:
    """Add up ones, or the weights, at the positions that `x` holds.

    Engines refuse a number that is negative, or not less than `minlength` where that is given. An OpenVINO IR
    cannot check it: the numbers must be clipped.
    """
    if x.ndim != 1 or x.dtype.kind not in "iub":
        raise TypeError("np.bincount takes a one-dimensional array of integers")
    at: Any = cast(x, I8)
    low, high = Intervals(running_graph().producers).of(at._value)
    length = as_index(minlength)
    is_inside = low >= 0 and not is_symbolic(length) and (high < length or length == 0)
    if not is_symbolic(length) and length == 0:
        most = np.max(np.concatenate([at, np.full(1, -1)])) + 1
        length = tracing.counts.counted_size(np.maximum(most, 0), MAX_VALUES)
    kind = I8 if weights is None else np.dtype(np.float64)
    added = np.ones((), I8) if weights is None else cast(array_like(weights), kind)
    zeros = expand(np.zeros((), kind), (length,))
    if not is_inside:
        at = np.where((at < 0) | (at >= as_array(length, I8)), OUTSIDE, at)
    return scatter(zeros, at, expand(added, at.shape), 0, "add")
