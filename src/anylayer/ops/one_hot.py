"""One-hot coding."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.ops._indexing import axis_of
from anylayer.ops._operator import operator
from anylayer.ops._spatial import need_room, whole
from anylayer.tracing import record
from anylayer.tracing.primitives import cast


@operator
def one_hot(indices: Any, depth: int, *, axis: int = -1) -> Any:
    """A new axis of length `depth` that is 1 at the index and 0 elsewhere (float32), ONNX OneHot-11.

    Negative indices count from the end; one outside -depth to depth - 1 gives zeros only.
    """
    depth, axis = _check(indices, depth, axis)
    found = np.where(indices < 0, indices + depth, indices)
    return np.moveaxis(found[..., None] == np.arange(depth), -1, axis).astype(np.float32)


def _check(indices: Any, depth: int, axis: int) -> tuple[int, int]:
    need_room((*indices.shape, whole(depth, "depth")), "the result")
    return int(depth), axis_of(axis, len(indices.shape) + 1)


@one_hot.form
def _(indices: Any, depth: int, *, axis: int = -1) -> Any:
    depth, axis = _check(indices, depth, axis)
    shape = (*indices.shape[:axis], depth, *indices.shape[axis:])
    values = np.array([0, 1], np.float32)
    return record("OneHot", [cast(indices, np.int64), np.array(depth), values], shape, np.float32, axis=axis)
