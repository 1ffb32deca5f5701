"""One-hot encoding."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array
from anylayer.ops._indexing import axis_of
from anylayer.ops._operator import operator
from anylayer.ops._spatial import integer, need_room
from anylayer.tracing import record
from anylayer.tracing.primitives import cast


@operator
def one_hot(indices: Array, depth: int, *, axis: int = -1) -> Array:
    """Return `indices` with a new axis of length `depth` that is 1 at the index and 0 elsewhere (float32).

    `axis` is the place of the new axis. A negative index counts from the end; an index outside -depth to depth - 1
    gives only zeros. ONNX OneHot-11. Raises LayerError if `depth` is not a positive integer or `axis` does not
    exist.
    """
    depth, axis = _check(indices, depth, axis)
    positive = np.where(indices < 0, indices + depth, indices)
    return np.moveaxis(positive[..., None] == np.arange(depth), -1, axis).astype(np.float32)


def _check(indices: Array, depth: int, axis: int) -> tuple[int, int]:
    need_room((*indices.shape, integer(depth, "depth")), "the result")
    return int(depth), axis_of(axis, len(indices.shape) + 1)


@one_hot.form
def _(indices: Array, depth: int, *, axis: int = -1) -> Array:
    depth, axis = _check(indices, depth, axis)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    values = np.array([0, 1], np.float32)
    return record("OneHot", [cast(indices, np.int64), np.array(depth), values], shape, np.float32, axis=axis)
