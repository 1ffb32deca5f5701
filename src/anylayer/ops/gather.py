"""Rows picked by number."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.ops._indexing import in_range
from anylayer.ops._operator import operator
from anylayer.tracing import record


@operator
def gather(x: Any, indices: Any, *, axis: int = 0) -> Any:
    """`x` with its `axis` replaced by the axes of `indices`, whole numbers of any shape (ONNX Gather-13).

    An index counts from the end when negative; one outside -n..n-1 is refused. Where `indices` are traced and
    `x` is not, np.take cannot be traced; this can.
    """
    axis = _checked(x, indices, axis)
    return np.take(x, in_range(indices, x.shape[axis], axis), axis=axis)


def _checked(x: Any, indices: Any, axis: int) -> int:
    rank = len(x.shape)
    need(-rank <= axis < rank, f"axis must lie in {-rank}..{rank - 1} for shape {tuple(x.shape)}, got {axis}")
    need(indices.dtype.kind in "iu", f"gather takes whole numbers as indices, got {indices.dtype}")
    return axis % rank


@gather.form
def _(x: Any, indices: Any, *, axis: int = 0) -> Any:
    axis = _checked(x, indices, axis)
    shape = (*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])
    return record("Gather", [x, indices.astype(np.int64)], shape, x.dtype, axis=axis)
