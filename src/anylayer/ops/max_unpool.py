"""Max unpooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.errors import need
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import Ints, need_room, per_axis, spatial_rank
from anylayer.tracing import record
from anylayer.tracing.primitives import cast, expand, reshape


@operator
def max_unpool(x: Array, indices: Array, output_size: Sequence[int] | int) -> Array:
    """Write each value of `x` (N, C, ...) to its index in a map of zeros of size `output_size`.

    The result has the shape `(N, C, *output_size)` and the dtype of `x`. `indices` (integers, the shape of `x`)
    count the cells of one channel's map in C order, as `max_pool_with_indices` returns them. If two values have
    the same index, the later one stays. Raises LayerError for a wrong shape, and for NumPy arrays if an index is
    outside the map.
    """
    size, planes, cells, values = _plan(x, indices, output_size)
    places = np.asarray(indices).astype(np.int64).reshape(planes, values)
    out = (places < 0) | (places >= cells)
    need(not out.any(), f"index {places[out][:1]} is outside a map of {cells} cells {size}")
    y = np.zeros((planes, cells), x.dtype)
    y[np.arange(planes)[:, None], places] = x.reshape(planes, values)
    return y.reshape(*x.shape[:2], *size)


def _plan(x: Array, indices: Array, output_size: Ints) -> tuple[tuple[int, ...], int, int, int]:
    axes = spatial_rank(x, "max_unpool")
    same = tuple(indices.shape) == tuple(x.shape)
    need(same, f"indices must be of the shape of the values {tuple(x.shape)}, got {tuple(indices.shape)}")
    size = per_axis(output_size, axes, "output_size")
    need_room((*x.shape[:2], *size), "the result")
    return size, x.shape[0] * x.shape[1], int(np.prod(size)), int(np.prod(x.shape[2:]))


@max_unpool.form
def _(x: Array, indices: Array, output_size: Sequence[int] | int) -> Array:
    """Record ScatterElements with one row per plane, because OpenVINO has no MaxUnpool."""
    size, planes, cells, values = _plan(x, indices, output_size)
    rows = reshape(x, (planes, values))
    places = reshape(cast(indices, np.int64), (planes, values))
    one = places[:1, :1]
    empty = expand(cast(one - one, x.dtype), (planes, cells))  # zeros that take no space in a file
    y = record("ScatterElements", [empty, places, rows], (planes, cells), x.dtype, axis=1)
    return reshape(y, (*x.shape[:2], *size))
