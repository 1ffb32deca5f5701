"""head: a number of leading rows that depends on data."""

from __future__ import annotations

from weakref import WeakKeyDictionary

import numpy as np

from anylayer.errors import need
from anylayer.graph import Graph
from anylayer.graph.sizes import Dim
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.tracing import TracedArray, record
from anylayer.tracing.primitives import cast, reshape

_sizes: WeakKeyDictionary[Graph, dict[tuple[str, object], Dim]] = WeakKeyDictionary()


@operator
def head(x: Array, count: Array | int) -> Array:
    """Return the first `count` rows of axis 0 of `x`. `count` is an integer of shape (), at most x.shape[0].

    Traced, the number of rows is a dynamic size (`Dim`): two arrays cut by the same traced count have the same
    number of rows. Raises LayerError if `x` has no axis or `count` is not a single number.
    """
    _check(x, count)
    return x[: int(count)]


def _check(x: Array, count: Array | int) -> None:
    need(len(x.shape) >= 1, "head needs an array with rows, got shape ()")
    shape = tuple(getattr(count, "shape", ()))
    need(shape == (), f"count must be one number of shape (), got shape {shape}")


@head.form
def _(x: Array, count: Array | int) -> Array:
    _check(x, count)
    if isinstance(count, TracedArray):
        size: Dim | int = _size(count, x.shape[0])
        end: Array = reshape(cast(count, np.int64), (1,))
    else:
        size = min(int(count), x.shape[0])
        end = np.array([size])
    start, axis = np.array([0]), np.array([0])
    return record("Slice", [x, start, end, axis], (size, *x.shape[1:]), x.dtype)


def _size(count: TracedArray, maximum: int) -> Dim:
    sizes = _sizes.setdefault(count._graph, {})
    name = count._value.name
    return sizes.setdefault(
        (name, getattr(maximum, "expression", maximum)), Dim(f"min({name}, {maximum})", maximum)
    )
