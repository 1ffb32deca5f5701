"""Functions that make arrays of arrays: joining, choosing, copying, filling, padding, repeating."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.tracing import primitives
from anylayer.tracing.array import Traced
from anylayer.tracing.dim import axis_of, broadcast
from anylayer.tracing.dispatch import implements
from anylayer.tracing.dtypes import BOOL, as_operand, common_dtype, weak
from anylayer.tracing.place import refusal
from anylayer.tracing.primitives import cast, concat, expand, reshape
from anylayer.tracing.ufuncs import where as choose_where


def array_like(x: Any) -> Any:
    """An array of what NumPy would make an array of, traced arrays in lists joined."""
    if type(x) is Traced:
        return x
    if type(x) in (list, tuple) and any(type(array_like(v)) is Traced for v in x):
        return stack([array_like(v) for v in x])
    return np.asarray(x)


@implements(np.concatenate)
def concatenate(arrays: Sequence[Any], /, axis: Any = 0, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = [array_like(a) for a in arrays]
    if axis is None:
        parts, axis = [p.reshape(-1) for p in parts], 0
    if any(p.ndim == 0 for p in parts):
        raise ValueError("zero-dimensional arrays cannot be concatenated")
    dtype = np.dtype(dtype) if dtype is not None else common_dtype(*parts)
    return concat([cast(p, dtype) for p in parts], axis_of(axis, parts[0].ndim))


@implements(np.stack)
def stack(arrays: Sequence[Any], axis: int = 0, *, dtype: Any = None, casting: str = "same_kind") -> Any:
    parts = [array_like(a) for a in arrays]
    if len({p.shape for p in parts}) != 1:
        raise ValueError("all input arrays must have the same shape")
    axis = axis_of(axis, parts[0].ndim + 1)
    return concatenate([np.expand_dims(p, axis) for p in parts], axis, dtype=dtype)


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None, /) -> Any:
    if x is None or y is None:
        raise refusal(
            "np.where(mask) has a size that is known only when the network runs; use np.where(mask, a, b)"
        )
    a, b = as_operand(x), as_operand(y)
    dtype = common_dtype(a, b)
    a, b = (np.asarray(v, dtype) if weak(v) else cast(v, dtype) for v in (a, b))
    mask = cast(as_operand(condition) if not isinstance(condition, bool) else np.asarray(condition), BOOL)
    shape = broadcast(mask.shape, a.shape, b.shape)
    return expand(choose_where(mask, a, b), shape)
