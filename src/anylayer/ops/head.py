"""The first rows, as many as the data says."""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from anylayer.errors import need
from anylayer.graph import Graph
from anylayer.graph.sizes import Dim
from anylayer.ops._operator import operator
from anylayer.tracing import TracedArray, record
from anylayer.tracing.primitives import cast, reshape

_sizes: WeakKeyDictionary[Graph, dict[tuple[str, int], Dim]] = WeakKeyDictionary()


@operator
def head(x: Any, count: Any) -> Any:
    """The first `count` rows of axis 0 of `x`; `count` is a whole number () of at most `x.shape[0]`.

    TracedArray, the number of rows is a `Dim`: two arrays cut by the same count have the same number of rows.
    """
    _check(x, count)
    return x[: int(count)]


def _check(x: Any, count: Any) -> None:
    need(len(x.shape) >= 1, "head needs an array with rows, got shape ()")
    shape = tuple(getattr(count, "shape", ()))
    need(shape == (), f"count must be one number of shape (), got shape {shape}")


@head.form
def _(x: Any, count: Any) -> Any:
    _check(x, count)
    if isinstance(count, TracedArray):
        size: Any = _size(count, x.shape[0])
        end: Any = reshape(cast(count, np.int64), (1,))
    else:
        size = min(int(count), x.shape[0])
        end = np.array([size])
    start, axis = np.array([0]), np.array([0])
    return record("Slice", [x, start, end, axis], (size, *x.shape[1:]), x.dtype)


def _size(count: TracedArray, maximum: int) -> Dim:
    known = _sizes.setdefault(count._graph, {})
    name = count._value.name
    return known.setdefault((name, maximum), Dim(name, maximum))
