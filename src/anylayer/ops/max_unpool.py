"""Max unpooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.ops._operator import operator
from anylayer.ops._spatial import need_room, per_axis, spatial_rank
from anylayer.tracing import record
from anylayer.tracing.primitives import cast, expand, reshape


@operator
def max_unpool(x: Any, indices: Any, output_size: Sequence[int] | int) -> Any:
    """Put each value of `x` (N, C, ...) where it was before `max_pool_with_indices`; zeros elsewhere.

    `indices` (whole numbers of any dtype) count the cells of one channel's map of `output_size`; where two values
    share a cell the later one stays. Raises LayerError where an index is outside the map.
    """
    size, planes, cells, values = _plan(x, indices, output_size)
    places = np.asarray(indices).astype(np.int64).reshape(planes, values)
    out = (places < 0) | (places >= cells)
    need(not out.any(), f"index {places[out][:1]} is outside a map of {cells} cells {size}")
    y = np.zeros((planes, cells), x.dtype)
    y[np.arange(planes)[:, None], places] = x.reshape(planes, values)
    return y.reshape(*x.shape[:2], *size)


def _plan(x: Any, indices: Any, output_size: Any) -> tuple[tuple[int, ...], int, int, int]:
    axes = spatial_rank(x, "max_unpool")
    same = tuple(indices.shape) == tuple(x.shape)
    need(same, f"indices must be of the shape of the values {tuple(x.shape)}, got {tuple(indices.shape)}")
    size = per_axis(output_size, axes, "output_size")
    need_room((*x.shape[:2], *size), "the result")
    return size, x.shape[0] * x.shape[1], int(np.prod(size)), int(np.prod(x.shape[2:]))


@max_unpool.form
def _(x: Any, indices: Any, output_size: Sequence[int] | int) -> Any:
    """ScatterElements on rows of one plane each (OpenVINO has no MaxUnpool)."""
    size, planes, cells, values = _plan(x, indices, output_size)
    rows = reshape(x, (planes, values))
    places = reshape(cast(indices, np.int64), (planes, values))
    one = places[:1, :1]
    empty = expand(cast(one - one, x.dtype), (planes, cells))  # zeros that need no room in a file
    y = record("ScatterElements", [empty, places, rows], (planes, cells), x.dtype, axis=1)
    return reshape(y, (*x.shape[:2], *size))
