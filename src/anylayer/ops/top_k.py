"""The largest or smallest values along an axis."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._indexing import axis_of
from anylayer.ops._operator import operator
from anylayer.ops._spatial import integer
from anylayer.tracing import record_many


def _check(x: Array, k: int, axis: int) -> tuple[int, int]:
    """Return `k`, and the axis counted from the front."""
    k, axis = integer(k, "k", 0), axis_of(axis, len(x.shape))
    need(k <= x.shape[axis], f"k={k} is more than the {x.shape[axis]} values of axis {axis}")
    return k, axis


@operator
def top_k(x: Array, k: int, *, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    """Return the `k` largest (or smallest) values along `axis`, best first, and their indices (int64).

    Of equal values, the one with the lower index comes first. ONNX TopK-11. Raises LayerError if `axis` does not
    exist or has less than `k` values.
    """
    k, axis = _check(x, k, axis)
    if largest:  # a stable descending sort: sort the reversed array and reverse the result
        order = x.shape[axis] - 1 - np.flip(np.argsort(np.flip(x, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(x, axis=axis, kind="stable")
    indices = np.take(order, np.arange(k), axis=axis).astype(np.int64)
    return np.take_along_axis(x, indices, axis), indices


@top_k.form
def _(x: Array, k: int, *, axis: int = -1, largest: bool = True) -> tuple[Array, Array]:
    k, axis = _check(x, k, axis)
    shape = (*x.shape[:axis], k, *x.shape[axis + 1 :])
    values, indices = record_many(
        "TopK",
        [x, np.array([k], np.int64)],
        [(shape, x.dtype), (shape, np.int64)],
        axis=axis,
        largest=int(largest),
        sorted=1,
    )
    return values, indices
