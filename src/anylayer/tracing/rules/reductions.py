"""Reductions and cumulative functions: np.sum and others, and the methods reduce and accumulate of ufuncs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from anylayer.graph.place import refusal
from anylayer.graph.sizes import numpy_axes, numpy_axis, reduced_shape
from anylayer.graph.symbolic import depends_on_data, is_empty
from anylayer.network import Array, DType, Function
from anylayer.tracing.array import TracingRule
from anylayer.tracing.dispatch import implements
from anylayer.tracing.dtypes import BOOL, I8
from anylayer.tracing.primitives import (
    AxisArg,
    as_array,
    cast,
    concat,
    is_constant,
    reduce,
    reshape,
    slices,
    to_native,
)
from anylayer.tracing.record import record

_NONE: Any = np._NoValue
_WIDE = {"b": np.dtype(np.int64), "i": np.dtype(np.int64), "u": np.dtype(np.uint64)}


def _sum_dtype(dtype: DType) -> DType:
    """Return the dtype of sum and prod: small integers and booleans are promoted to 64 bits."""
    return _WIDE[dtype.kind] if dtype.kind in "biu" and dtype.itemsize < 8 else dtype


def _reduce(op: str, x: Array, axis: AxisArg, keepdims: bool) -> Array:
    """Record a reduction over axes that are not empty. `x` has a native dtype."""
    return reduce(op, x, numpy_axes(axis, x.ndim), keepdims)


def _reduce_or_fill(op: str, x: Array, axes: Sequence[int], keepdims: bool, dtype: DType, empty: Any) -> Array:
    """Return a reduction as `dtype`. Where an axis has no elements, each result is `empty`."""
    if is_empty([x.shape[a] for a in axes]):
        return np.full(reduced_shape(x.shape, axes, keepdims), empty, dtype)
    return cast(_reduce(op, to_native(x), axes, keepdims), dtype)


def _additive(ufunc: np.ufunc, op: str, neutral: int) -> TracingRule:
    """Return the rule of sum or prod. Booleans and integers are computed in 64 bits."""

    def rule(
        a: Array,
        axis: AxisArg = None,
        dtype: DTypeLike | None = None,
        *,
        keepdims: bool = False,
        initial: Any = _NONE,
        where: Any = True,
    ) -> Array:
        dtype = np.dtype(dtype) if dtype is not None else _sum_dtype(a.dtype)
        if where is not True:
            a = np.where(where, a, a.dtype.type(neutral))
        axes = numpy_axes(axis, a.ndim)
        a = cast(a, dtype)
        if dtype == BOOL:
            of_truth = "ReduceMax" if neutral == 0 else "ReduceMin"
            result = _reduce_or_fill(of_truth, a, axes, keepdims, BOOL, neutral)
        elif op == "ReduceProd" and dtype.kind in "iu" and not is_empty([a.shape[i] for i in axes]):
            result = cast(_product(to_native(a), axes, keepdims), dtype)
        else:
            result = _reduce_or_fill(op, a, axes, keepdims, dtype, neutral)
        return result if initial is _NONE else ufunc(result, np.asarray(initial, dtype))

    return rule


def _product(a: Array, axes: Sequence[int], keepdims: bool) -> Array:
    """Multiply integers half by half: the engines compute a product in float64, which rounds above 2^53."""
    shape = reduced_shape(a.shape, axes, keepdims)
    for axis in axes:
        while a.shape[axis] > 1:
            half = a.shape[axis] // 2
            first, second = slices(a, [(axis, 0, half, 1)]), slices(a, [(axis, half, half, 1)])
            rest = slices(a, [(axis, 2 * half, 1, 1)]) if a.shape[axis] % 2 else None
            a = first * second if rest is None else concat([first * second, rest], axis)
    return reshape(a, shape)


implements(np.sum)(_additive(np.add, "ReduceSum", 0))
implements(np.prod)(_additive(np.multiply, "ReduceProd", 1))


def _extreme(ufunc: np.ufunc, op: str) -> TracingRule:
    """Return the rule of max or min."""

    def rule(
        a: Array, axis: AxisArg = None, *, keepdims: bool = False, initial: Any = _NONE, where: Any = True
    ) -> Any:
        axes = numpy_axes(axis, a.ndim)
        if where is not True:
            if initial is _NONE:
                raise ValueError(
                    f"reduction operation '{ufunc.__name__}' does not have an identity, so to use a where mask "
                    "one has to specify 'initial'"
                )
            a = np.where(where, a, np.asarray(initial, a.dtype))
        if initial is _NONE:
            if any(a.shape[i] == 0 for i in axes):
                raise ValueError(f"zero-size array to reduction operation {ufunc.__name__} which has no identity")
            return _reduce_or_fill(op, a, axes, keepdims, a.dtype, None)
        result = _reduce_or_fill(op, a, axes, keepdims, a.dtype, initial)
        is_identity = isinstance(initial, float) and initial == (-np.inf if ufunc is np.maximum else np.inf)
        certain = not any(depends_on_data(a.shape[i]) for i in axes)
        return result if is_identity and certain else ufunc(result, np.asarray(initial, a.dtype))

    return rule


implements(np.max, np.amax)(_extreme(np.maximum, "ReduceMax"))
implements(np.min, np.amin)(_extreme(np.minimum, "ReduceMin"))


def _truth(op: str, neutral: bool) -> TracingRule:
    """Return the rule of any or all."""

    def rule(a: Array, axis: AxisArg = None, *, keepdims: bool = False, where: Any = True) -> Any:
        a = cast(a, BOOL)
        if where is not True:
            a = np.where(where, a, neutral)
        axes = numpy_axes(axis, a.ndim)
        if any(depends_on_data(a.shape[i]) for i in axes):  # the largest of no elements is the least number
            return (np.sum(a != neutral, axis, keepdims=keepdims) > 0) != neutral
        return _reduce_or_fill(op, a, axes, keepdims, BOOL, neutral)

    return rule


implements(np.any)(_truth("ReduceMax", False))
implements(np.all)(_truth("ReduceMin", True))


@implements(np.mean)
def mean(a: Array, axis: AxisArg = None, dtype: DTypeLike | None = None, *, keepdims: bool = False) -> Any:
    if dtype is None:
        dtype = np.float64 if a.dtype.kind in "biu" else a.dtype
    a = cast(a, dtype)
    if a.dtype.kind in "biu":
        total: Any = np.sum(a, axis, dtype=dtype, keepdims=keepdims)
        return cast(total / _count(a, numpy_axes(axis, a.ndim)), dtype)
    if any(depends_on_data(a.shape[i]) for i in numpy_axes(axis, a.ndim)):  # engines return 0 for no elements
        return np.sum(a, axis, keepdims=keepdims) / as_array(_count(a, numpy_axes(axis, a.ndim)), a.dtype)
    return cast(_reduce("ReduceMean", to_native(a), axis, keepdims), dtype)


def _count(a: Array, axes: Sequence[int]) -> int:
    return math.prod(a.shape[i] for i in axes)


@implements(np.var)
def var(
    a: Array,
    axis: AxisArg = None,
    dtype: DTypeLike | None = None,
    *,
    ddof: float = 0,
    keepdims: bool = False,
    mean: Any = None,
    correction: Any = _NONE,
) -> Array:
    if correction is not _NONE:
        ddof = correction
    if dtype is None:
        dtype = np.float64 if a.dtype.kind in "biu" else a.dtype
    a = to_native(cast(a, dtype))
    axes = numpy_axes(axis, a.ndim)
    center = np.mean(a, axis, keepdims=True) if mean is None else cast(mean, a.dtype)
    difference = a - center
    squares = difference * difference
    if ddof == 0:
        return cast(np.mean(squares, axis, keepdims=keepdims), dtype)
    count = np.asarray(max(_count(a, axes) - ddof, 0), a.dtype)
    return cast(_reduce("ReduceSum", squares, axes, keepdims) / count, dtype)


@implements(np.std)
def std(a: Array, axis: AxisArg = None, dtype: DTypeLike | None = None, **kwargs: Any) -> Any:
    return np.sqrt(np.var(a, axis, dtype, **kwargs))


def _arg(op: str) -> TracingRule:
    """Return the rule of argmax or argmin."""

    def rule(a: Array, axis: AxisArg = None, *, keepdims: bool = False) -> Array:
        rank = a.ndim
        if axis is None:
            a, place = a.reshape(-1), 0
        else:
            place = numpy_axis(axis, rank)
        if a.shape[place] == 0:
            raise ValueError("attempt to get argmax of an empty sequence")
        shape = tuple(d for i, d in enumerate(a.shape) if i != place)
        result = record(op, [to_native(a)], shape, I8, axis=place, keepdims=0)
        if not keepdims:
            return result
        return np.expand_dims(result, tuple(range(rank)) if axis is None else place)

    return rule


implements(np.argmax)(_arg("ArgMax"))
implements(np.argmin)(_arg("ArgMin"))


@implements(np.ptp)
def ptp(a: Array, axis: AxisArg = None, *, keepdims: bool = False) -> Any:
    return np.max(a, axis, keepdims=keepdims) - np.min(a, axis, keepdims=keepdims)


@implements(np.count_nonzero)
def count_nonzero(a: Array, axis: AxisArg = None, *, keepdims: bool = False) -> Any:
    return np.sum(a != 0, axis, dtype=np.int64, keepdims=keepdims)


@implements(np.average)
def average(
    a: Array, axis: AxisArg = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    if returned:
        raise refusal(
            "np.average(..., returned=True) cannot be recorded; compute the sum of the weights with np.sum"
        )
    if weights is None:
        return np.mean(a, axis, keepdims=keepdims)
    weights = weights if not is_constant(weights) else np.asarray(weights)
    dtype = np.result_type(a.dtype, weights.dtype, *(["f8"] if a.dtype.kind in "biu" else []))
    if weights.shape != a.shape:
        axes = numpy_axes(axis, a.ndim)
        weights = weights.reshape([d if i in axes else 1 for i, d in enumerate(a.shape)])
    a, weights = cast(a, dtype), cast(weights, dtype)
    total = np.sum(np.broadcast_to(weights, a.shape), axis, keepdims=keepdims)
    return np.sum(a * weights, axis, keepdims=keepdims) / total


# --------------------------------------------------- cumulative functions


def _cumulative_arguments(a: Array, axis: AxisArg, dtype: DTypeLike | None) -> tuple[Array, int, DType]:
    """Return the arguments of a cumulative function: the array, cast to the dtype of the result; the axis; and
    this dtype.
    """
    a = a.reshape(-1) if axis is None else a
    dtype = np.dtype(dtype) if dtype is not None else _sum_dtype(a.dtype)
    return cast(a, dtype), numpy_axis(0 if axis is None else axis, a.ndim), dtype


@implements(np.cumsum)
def cumsum(a: Array, axis: AxisArg = None, dtype: DTypeLike | None = None) -> Array:
    a, place, dtype = _cumulative_arguments(a, axis, dtype)
    a = to_native(a)
    return cast(record("CumSum", [a, np.array(place)], a.shape, a.dtype), dtype)


def _accumulate(ufunc: np.ufunc, a: Array, axis: int) -> Array:
    """Return ufunc.accumulate along an axis in log2(n) steps, whose distance doubles."""
    n = a.shape[axis]
    step = 1
    while step < n:
        head = slices(a, [(axis, 0, step, 1)])
        rest = ufunc(slices(a, [(axis, step, n - step, 1)]), slices(a, [(axis, 0, n - step, 1)]))
        a = concat([head, rest], axis)
        step *= 2
    return a


@implements(np.cumprod)
def cumprod(a: Array, axis: AxisArg = None, dtype: DTypeLike | None = None) -> Array:
    a, place, _ = _cumulative_arguments(a, axis, dtype)
    return _accumulate(np.multiply, a, place)


def _cumulative(function: Function, first: int) -> TracingRule:
    """Return the rule of np.cumulative_sum or np.cumulative_prod. `first` is the initial value."""

    def rule(
        x: Array, /, *, axis: AxisArg = None, dtype: DTypeLike | None = None, include_initial: bool = False
    ) -> Any:
        if axis is None and x.ndim > 1:
            raise ValueError("For arrays which have more than one dimension ``axis`` argument is required.")
        axis = numpy_axis(0 if axis is None else axis, x.ndim)
        result = function(x, axis, dtype)
        if not include_initial:
            return result
        start = np.full([1 if i == axis else d for i, d in enumerate(x.shape)], first, result.dtype)
        return np.concatenate([start, result], axis)

    return rule


if hasattr(np, "cumulative_sum"):
    implements(np.cumulative_sum)(_cumulative(np.cumsum, 0))
    implements(np.cumulative_prod)(_cumulative(np.cumprod, 1))


# ------------------------------------------------------------ ufunc methods

_REDUCE: dict[np.ufunc, TracingRule] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
    np.logical_or: np.any,
    np.logical_and: np.all,
}


def _ufunc_reduce(
    ufunc: np.ufunc,
    a: Array,
    axis: AxisArg = 0,
    dtype: DTypeLike | None = None,
    keepdims: bool = False,
    **more: Any,
) -> Any:
    function = _REDUCE.get(ufunc)
    if function is None:
        raise refusal(
            f"np.{ufunc.__name__}.reduce cannot be recorded; only those of add, multiply, maximum, "
            "minimum, logical_or and logical_and can"
        )
    if more.get("initial", _NONE) is None:
        del more["initial"]
    if dtype is not None:
        more["dtype"] = dtype
    if ufunc in (np.maximum, np.minimum) and dtype is not None:
        a = cast(a, np.dtype(more.pop("dtype")))
    return function(a, axis=axis, keepdims=keepdims, **more)


def _ufunc_accumulate(ufunc: np.ufunc, a: Array, axis: int = 0, dtype: DTypeLike | None = None) -> Array:
    axis = numpy_axis(axis, a.ndim)
    if ufunc is np.add:
        return np.cumsum(a, axis, dtype)
    if ufunc is np.multiply:
        return np.cumprod(a, axis, dtype)
    if ufunc in (np.maximum, np.minimum, np.fmax, np.fmin):
        return _accumulate(ufunc, a, axis)
    raise refusal(
        f"np.{ufunc.__name__}.accumulate cannot be recorded; only those of add, multiply, maximum and minimum can"
    )


def _ufunc_outer(ufunc: np.ufunc, a: Array, b: Array, **more: Any) -> Any:
    a, b = (x if not is_constant(x) else np.asarray(x) for x in (a, b))
    return ufunc(reshape(a, (*a.shape, *[1] * b.ndim)), b, **more)


UFUNC_METHODS: Mapping[str, TracingRule] = {
    "reduce": _ufunc_reduce,
    "accumulate": _ufunc_accumulate,
    "outer": _ufunc_outer,
}
"""The rules of the ufunc methods that return an array. A rule receives the ufunc, followed by the arguments."""
