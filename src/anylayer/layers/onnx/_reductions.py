"""NumPy meanings of reductions, and of operators that sort and sum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.errors import need
from anylayer.layers.onnx._call import NoMeaning, OpCall, meaning
from anylayer.layers.onnx._movement import ints
from anylayer.layers.onnx._record import recorded
from anylayer.network import Array
from anylayer.tracing import is_traced, size_list


def _sum(x: Array, axes: Any, keep: bool) -> Any:
    return x.sum(axis=axes, keepdims=keep, dtype=x.dtype)


def _extreme(function: Callable[..., Any], empty_float: float) -> Callable[..., Any]:
    def reduce(x: Array, axes: Any, keep: bool) -> Any:
        if 0 not in x.shape:
            return function(x, axis=axes, keepdims=keep)
        if x.dtype.kind == "f":
            initial: Any = empty_float
        elif x.dtype.kind == "b":
            initial = empty_float > 0
        else:
            info = np.iinfo(x.dtype)
            initial = info.max if empty_float > 0 else info.min
        return function(x, axis=axes, keepdims=keep, initial=initial)

    return reduce


_REDUCTIONS: dict[str, Callable[[Any, Any, bool], Any]] = {
    "ReduceSum": _sum,
    "ReduceProd": lambda x, axes, keep: x.prod(axis=axes, keepdims=keep, dtype=x.dtype),
    "ReduceMax": _extreme(np.max, -np.inf),
    "ReduceMin": _extreme(np.min, np.inf),
    "ReduceL1": lambda x, axes, keep: _sum(np.abs(x), axes, keep),
    "ReduceSumSquare": lambda x, axes, keep: _sum(x * x, axes, keep),
}


def _axes(call: OpCall, x: Array) -> tuple[int, ...] | None:
    """Return the axes to reduce, or None for no axes at all."""
    axes = call.input(1)
    if axes is None or not np.size(axes):
        return None if call["noop_with_empty_axes"] else tuple(range(len(x.shape)))
    return tuple(ints(axes))


def _enter() -> None:
    for op, function in _REDUCTIONS.items():

        def reduce(call: OpCall, x: Array, axes: Array | None = None, function: Any = function) -> Any:
            dynamic = is_traced(x) and is_traced(axes) and size_list(axes) is None
            if dynamic and x.dtype.name not in ("uint32", "uint64"):  # engines lack these two
                return _record(call, x, axes)
            where = _axes(call, x)
            return _elementwise_part(call.op, x) if where is None else function(x, where, bool(call["keepdims"]))

        meaning(op, traceable=True)(reduce)


_SMALL = frozenset(("bool", "int8", "uint8"))
"""The dtypes of maxima and minima that engines compute as int32."""


def _record(call: OpCall, x: Any, axes: Any) -> Any:
    """Record a reduction over axes that are known only when the network runs."""
    if x.dtype.name not in _SMALL:
        return recorded(OpCall(call.op, call.version, [x, axes], call.attrs))[0]
    (wide,) = recorded(OpCall(call.op, call.version, [x.astype(np.int32), axes], call.attrs))
    low, high = (0, 1) if x.dtype.kind == "b" else (np.iinfo(x.dtype).min, np.iinfo(x.dtype).max)
    return np.clip(wide, low, high).astype(x.dtype)  # the extremum of no elements is that of int32


def _elementwise_part(op: str, x: Any) -> Any:
    """Return the function of each element alone: a reduction over no axes."""
    if op == "ReduceL1":
        return np.abs(x)
    return x * x if op == "ReduceSumSquare" else x


_enter()


@meaning("ReduceMean")
def _mean(call: OpCall, x: Array, axes: Array | None = None) -> Any:
    """Return the mean. The reference implementation sums float16 in float16."""
    where = _axes(call, x)
    if where is None or x.dtype.kind != "f":
        raise NoMeaning
    return x.mean(axis=where, keepdims=bool(call["keepdims"])).astype(x.dtype)


@meaning("LpNormalization", traceable=True)
def _lp_normalization(call: OpCall, x: Array) -> Any:
    """Divide by the sum of absolute values (p=1) or the Euclidean length (p=2); 0 where that is 0."""
    p = call["p"]
    need(p in (1, 2), f"p must be 1 or 2, got {p}")
    total = (np.abs(x) if p == 1 else x * x).sum(axis=call["axis"], keepdims=True, dtype=x.dtype)
    norm = total if p == 1 else np.sqrt(total)
    return np.where(norm == 0, x.dtype.type(0), x / np.where(norm == 0, x.dtype.type(1), norm)).astype(x.dtype)


@meaning("Einsum")
def _einsum(call: OpCall, *inputs: Any) -> Any:
    return np.asarray(np.einsum(call["equation"], *inputs, optimize=True))


@meaning("TopK")
def _top_k(call: OpCall, x: Array, k: Array) -> tuple[Array, Array]:
    count = int(np.asarray(k).reshape(()))
    return ops.top_k(x, count, axis=call["axis"], largest=bool(call["largest"]))


@meaning("MeanVarianceNormalization")
def _mean_variance_normalization(call: OpCall, x: Any) -> Any:
    where = tuple(call["axes"])
    centered = x - x.mean(axis=where, keepdims=True)
    deviation = np.sqrt((centered * centered).mean(axis=where, keepdims=True))
    return centered / (deviation + x.dtype.type(1e-9))
