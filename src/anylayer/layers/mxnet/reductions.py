"""Reductions, indices of extrema, and sorting."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need
from anylayer.layer.arguments import axes_of
from anylayer.layers._arrays import euclidean_norm, product, total
from anylayer.layers._table import OperatorType, row
from anylayer.layers.mxnet._base import ANY, FLAG, along, operators
from anylayer.network import Function

Axes = int | Sequence[int] | None


def over(x: Array, axis: Axes, exclude: bool = False) -> tuple[int, ...]:
    """Return the axes of a reduction: `axis`, or the others; all of them where it is None or empty."""
    axes = axes_of([axis] if isinstance(axis, int) else axis or [], len(x.shape))
    rest = [i for i in range(len(x.shape)) if i not in axes]
    return tuple(rest if exclude and axes else axes or rest)


def _with_axis(y: Array) -> Array:
    """Return an array with one axis in place of a scalar, as MXNet has no scalars."""
    return y if y.shape else y.reshape(1)


def _reduction(what: str, function: Function) -> OperatorType:
    def reduce(x: Array, axis: Axes, exclude: bool, keepdims: bool) -> Array:
        return _with_axis(function(x, axis=over(x, axis, exclude), keepdims=keepdims).astype(x.dtype))

    return row(f"Compute {what} over axes.", reduce, "tensor/broadcast_reduce_op_value.cc",
        "axis names the axes, or with exclude the others; without it, all axes are reduced, to the shape (1,).",
        axis=ANY, exclude=FLAG, keepdims=FLAG)  # fmt: skip


def _mean(x: Array, axis: tuple[int, ...], keepdims: bool) -> Array:
    need(x.dtype.kind == "f", f"the mean of {x.dtype} is not supported")
    return np.mean(x, axis=axis, keepdims=keepdims)


def _moments(x: Array, axes: Axes, keepdims: bool) -> list[Array]:
    return [_with_axis(f(x, axis=over(x, axes), keepdims=keepdims)) for f in (np.mean, np.var)]


def _norm(x: Array, ord: int, axis: Axes, keepdims: bool) -> Array:
    need(ord in (1, 2), f"ord must be 1 or 2, got {ord}")
    function, values = (euclidean_norm, x) if ord == 2 else (total, np.abs(x))
    return _with_axis(function(values, axis=over(x, axis), keepdims=keepdims))


def _index_of(what: str, function: Function) -> OperatorType:
    def index(x: Array, axis: int | None, keepdims: bool) -> Array:
        flat, at = along(x, axis)
        need(flat.shape[at], f"axis {at} of shape {tuple(x.shape)} has size 0; 1 or more is needed")
        places = _with_axis(function(flat, axis=at, keepdims=keepdims).astype(np.float32))
        return places.reshape((1,) * len(x.shape)) if axis is None and keepdims else places

    return row(f"Return the index of the {what} along an axis, or in the flat array, as float32.", index,
        "tensor/broadcast_reduce_op_index.cc", "Before version 0.9.5 axis=-1 means the flat array.",
        {"without_effect": ("axis", -1, 905)}, axis=ANY, keepdims=FLAG)  # fmt: skip


def _top_k(
    x: Array, *, axis: int | None, k: int, ret_typ: str, is_ascend: bool, dtype: str, outputs: int
) -> Array | list[Array]:
    flat, at = along(x, axis)
    values, places = ops.top_k(flat, k if k > 0 else flat.shape[at], axis=at, largest=not is_ascend)
    if ret_typ == "mask":
        need(axis is not None, "ret_typ mask with axis=None is not supported")
        marks = np.ones(places.shape, x.dtype)
        return ops.scatter_elements(np.zeros(flat.shape, x.dtype), places, marks, axis=at)
    both = [values, places.astype(dtype)]
    return {"value": both[:1], "indices": both[1:], "both": both[:outputs]}[ret_typ]


def _sort(x: Array, axis: int | None, is_ascend: bool) -> Array | list[Array]:
    return _top_k(x, axis=axis, k=0, ret_typ="value", is_ascend=is_ascend, dtype="float32", outputs=1)


def _arg_sort(x: Array, axis: int | None, is_ascend: bool, dtype: str) -> Array | list[Array]:
    return _top_k(x, axis=axis, k=0, ret_typ="indices", is_ascend=is_ascend, dtype=dtype, outputs=1)


_LAST, _ASCENDING = attribute("any", -1), attribute("bool", True)
_INDEX = attribute(Enum("float32", "uint8", "int32", "int64", "float16", "float64"), "float32")
_ORDER = "tensor/ordering_op.cc"
operators(
    {
        "sum sum_axis": _reduction("the sum", total),
        "mean": _reduction("the mean", _mean),
        "prod": _reduction("the product", product),
        "nansum": _reduction("the sum of the elements that are not NaN",
            lambda x, **how: total(np.where(np.isnan(x), x.dtype.type(0), x), **how)),
        "nanprod": _reduction("the product of the elements that are not NaN",
            lambda x, **how: product(np.where(np.isnan(x), x.dtype.type(1), x), **how)),
        "moments": row("Compute the mean and the variance over axes.", _moments, "nn/moments.cc", axes=ANY,
            keepdims=FLAG),
        "max max_axis": _reduction("the maximum", np.max),
        "min min_axis": _reduction("the minimum", np.min),
        "norm": row("Compute the sum of absolute values (ord 1) or the root of the sum of squares (ord 2).", _norm,
            "tensor/broadcast_reduce_norm_value.cc", "", {"neutral": {"out_dtype": None}},
            ord=attribute("int32", 2), axis=ANY, keepdims=FLAG),
        "argmax": _index_of("maximum", np.argmax),
        "argmin": _index_of("minimum", np.argmin),
        "argmax_channel": row("Return the index of the maximum along axis 1, as float32.",
            lambda x: np.argmax(x, axis=1).astype(np.float32), "tensor/broadcast_reduce_op_index.cc"),
        "topk": row("Return the k best values along an axis, their indices, or a mask of them.", _top_k, _ORDER,
            "The largest are the best, or with is_ascend the smallest. k=0 means all.", axis=_LAST,
            k=attribute("int32", 1), is_ascend=FLAG, dtype=_INDEX,
            ret_typ=attribute(Enum("indices", "value", "mask", "both"), "indices")),
        "sort": row("Sort along an axis, or the flat array.", _sort, _ORDER, axis=_LAST, is_ascend=_ASCENDING),
        "argsort": row("Return the indices that sort along an axis, or the flat array.", _arg_sort, _ORDER,
            axis=_LAST, is_ascend=_ASCENDING, dtype=_INDEX),
    },
)  # fmt: skip
