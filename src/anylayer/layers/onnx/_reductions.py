"""NumPy meanings of reductions, cumulative sums, matrix products and selections."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.layers.onnx._call import Call, meaning


def _sum(x: Any, axes: Any, keep: bool) -> Any:
    return x.sum(axis=axes, keepdims=keep, dtype=x.dtype)


def _log_sum_exp(x: Any, axes: Any, keep: bool) -> Any:
    top = x.max(axis=axes, keepdims=True, initial=-np.inf)
    top = np.where(np.isfinite(top), top, x.dtype.type(0))
    total = np.log(np.exp(x - top).sum(axis=axes, keepdims=True, dtype=x.dtype)) + top
    return total if keep else total.squeeze(tuple(axes))


def _extreme(function: Callable[..., Any], empty_float: float) -> Callable[..., Any]:
    def reduce(x: Any, axes: Any, keep: bool) -> Any:
        if 0 not in x.shape:
            return function(x, axis=axes, keepdims=keep)
        if x.dtype.kind == "f":
            initial: Any = empty_float
        elif x.dtype.kind == "b":
            initial = empty_float < 0
            initial = not initial
        else:
            info = np.iinfo(x.dtype)
            initial = info.max if empty_float > 0 else info.min
        return function(x, axis=axes, keepdims=keep, initial=initial)

    return reduce


_REDUCTIONS: dict[str, Callable[[Any, Any, bool], Any]] = {
    "ReduceSum": _sum,
    "ReduceMean": lambda x, axes, keep: (
        x.mean(axis=axes, keepdims=keep).astype(x.dtype) if x.dtype.kind == "f" else _integer_mean(x, axes, keep)
    ),
    "ReduceProd": lambda x, axes, keep: x.prod(axis=axes, keepdims=keep, dtype=x.dtype),
    "ReduceMax": _extreme(np.max, -np.inf),
    "ReduceMin": _extreme(np.min, np.inf),
    "ReduceL1": lambda x, axes, keep: _sum(np.abs(x), axes, keep),
    "ReduceL2": lambda x, axes, keep: np.sqrt(_sum(x * x, axes, keep)).astype(x.dtype),
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
    "ReduceLogSum": lambda x, axes, keep: np.log(_sum(x, axes, keep)).astype(x.dtype),
    "ReduceLogSumExp": _log_sum_exp,
}
_TRACEABLE = ("ReduceSum", "ReduceProd", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceSumSquare")


def _integer_mean(x: Any, axes: Any, keep: bool) -> Any:
    total = x.sum(axis=axes, keepdims=keep, dtype=np.int64)
    count = max(x.size // max(total.size, 1), 1)
    return np.trunc(total / count).astype(x.dtype)


def _axes(call: Call, x: Any) -> tuple[int, ...] | None:
    """Return the axes to reduce, or None for no axes at all."""
    axes = call.input(1)
    if axes is None or not np.size(axes):
        return None if call["noop_with_empty_axes"] else tuple(range(len(x.shape)))
    return tuple(int(a) for a in np.asarray(axes).reshape(-1))


def _enter() -> None:
    for op, function in _REDUCTIONS.items():

        def reduced(call: Call, x: Any, axes: Any = None, function: Any = function) -> Any:
            where = _axes(call, x)
            if where is None:
                return _unreduced(call.op, x)
            return np.asarray(function(x, where, bool(call["keepdims"])))

        def traced(call: Call, x: Any, axes: Any = None, function: Any = function) -> Any:
            where = _axes(call, x)
            return _unreduced(call.op, x) if where is None else function(x, where, bool(call["keepdims"]))

        meaning(op, traceable=op in _TRACEABLE)(traced if op in _TRACEABLE else reduced)


def _unreduced(op: str, x: Any) -> Any:
    """Return the function of each element alone: a reduction over no axes."""
    if op in ("ReduceL1", "ReduceL2"):
        return np.abs(x)
    if op == "ReduceSumSquare":
        return x * x
    return np.log(x) if op == "ReduceLogSum" else x


_enter()


@meaning("LpNormalization", traceable=True)
def _lp_normalization(call: Call, x: Any) -> Any:
    """Divide by the sum of absolute values (p=1) or the Euclidean length (p=2); 0 where that is 0."""
    p = call["p"]
    need(p in (1, 2), f"p must be 1 or 2, got {p}")
    total = (np.abs(x) if p == 1 else x * x).sum(axis=call["axis"], keepdims=True, dtype=x.dtype)
    norm = total if p == 1 else np.sqrt(total)
    return np.where(norm == 0, x.dtype.type(0), x / np.where(norm == 0, x.dtype.type(1), norm)).astype(x.dtype)


@meaning("ArgMax", "ArgMin")
def _arg(call: Call, x: Any) -> Any:
    axis, find = call["axis"], np.argmax if call.op == "ArgMax" else np.argmin
    if call["select_last_index"]:
        found = x.shape[axis] - 1 - find(np.flip(x, axis), axis)
    else:
        found = find(x, axis)
    found = np.asarray(found, np.int64)
    return np.expand_dims(found, axis) if call["keepdims"] else found


@meaning("CumSum")
def _cumsum(call: Call, x: Any, axis: Any) -> Any:
    return _running(call, x, axis, np.add, 0)


@meaning("CumProd")
def _cumprod(call: Call, x: Any, axis: Any) -> Any:
    return _running(call, x, axis, np.multiply, 1)


def _running(call: Call, x: Any, axis: Any, ufunc: np.ufunc, first: int) -> Any:
    where = int(np.asarray(axis).reshape(()))
    y = np.flip(x, where) if call["reverse"] else x
    if call["exclusive"]:
        y = np.roll(y, 1, where)
        y = np.moveaxis(y.copy(), where, 0)
        y[:1] = first
        y = np.moveaxis(y, 0, where)
    y = ufunc.accumulate(y, axis=where, dtype=x.dtype)
    return np.flip(y, where) if call["reverse"] else y


@meaning("MatMul")
def _matmul(call: Call, a: Any, b: Any) -> Any:
    return np.asarray(np.matmul(a, b))


@meaning("Gemm")
def _gemm(call: Call, a: Any, b: Any, c: Any = None) -> Any:
    y = (a.T if call["transA"] else a) @ (b.T if call["transB"] else b)
    if call["alpha"] != 1:
        y = y * a.dtype.type(call["alpha"])
    if c is None:
        return y.astype(a.dtype)
    return (y + (c if call["beta"] == 1 else c * a.dtype.type(call["beta"]))).astype(a.dtype)


@meaning("Einsum")
def _einsum(call: Call, *inputs: Any) -> Any:
    return np.asarray(np.einsum(call["equation"], *inputs, optimize=True))


@meaning("TopK")
def _top_k(call: Call, x: Any, k: Any) -> Any:
    axis, count = call["axis"], int(np.asarray(k).reshape(()))
    need(0 <= count <= x.shape[axis], f"k={count} must lie in 0..{x.shape[axis]}, the size of axis {axis}")
    wide = x.astype(np.int64) if x.dtype.kind in "iu" and x.dtype.itemsize < 8 else x
    keys = ~wide if x.dtype.kind in "iu" else -wide
    order = np.argsort(keys if call["largest"] else wide, axis=axis, kind="stable")
    picked = np.take(order, np.arange(count), axis=axis)
    return np.take_along_axis(x, picked, axis), picked.astype(np.int64)
