"""Operators that write by index, sum segments, or select boxes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, need
from anylayer.layer.arguments import integer, integers, number
from anylayer.layers._table import OperatorType, operators, row
from anylayer.layers.tflite._base import SOURCE, TFLiteLayer, of_tensorflow
from anylayer.network import MAX_VALUES, DType


def _full(sizes: Sequence[int], value: float, dtype: DType) -> Array:
    count = np.prod(sizes, dtype=float)
    need(min(sizes, default=0) >= 0 and count <= MAX_VALUES, f"a result of shape {list(sizes)} is not supported")
    return np.broadcast_to(np.array(value, dtype), tuple(sizes))


def _scatter(indices: Array, updates: Array, shape: list[int]) -> Array:
    return ops.scatter_nd(_full(shape, 0, updates.dtype), indices.astype(np.int64), updates, reduction="add")


def _sparse_to_dense(
    indices: Array, shape: list[int], values: Array, default: Array, *, validate_indices: bool
) -> Array:
    rank = len(shape)
    places = indices.reshape((-1, rank) if len(indices.shape) == 2 else (-1, 1)).astype(np.int64)
    need(places.shape[1] == rank, f"the indices have {places.shape[1]} values each, expected {rank}")
    dense = np.broadcast_to(default.reshape((1,) * rank), _full(shape, 0, values.dtype).shape)
    return ops.scatter_nd(dense, places, np.broadcast_to(values, (places.shape[0],)))


def _update_slice(x: Array, update: Array, start: Array) -> Array:
    """Return `x` with another part. The start is limited to where the part fits, and may be data."""
    rank = len(x.shape)
    need(len(update.shape) == rank == start.shape[0], f"the start and the update must have {rank} axes")
    is_inside = np.ones((1,) * rank, bool)
    for axis, (size, part) in enumerate(zip(x.shape, update.shape)):
        need(part <= size, f"the update {tuple(update.shape)} is larger than {tuple(x.shape)}")
        places = np.arange(size) - np.clip(start[axis].astype(np.int64), 0, size - part)
        shape = tuple(size if i == axis else 1 for i in range(rank))
        is_inside = is_inside & ((places >= 0) & (places < part)).reshape(shape)
        update = ops.gather(update, np.clip(places, 0, max(part - 1, 0)), axis=axis)
    return np.where(is_inside, update, x)


def _segments(reduction: str, start: str = "0") -> OperatorType:
    """Return the row of a reduction of the rows of each segment, whose result without rows is `start`."""

    def reduce_segments(x: Array, segment_ids: Array, num_segments: int) -> Array:
        rows = tuple(x.shape[len(segment_ids.shape) :])
        limits = np.finfo(x.dtype) if x.dtype.kind == "f" else np.iinfo(x.dtype)
        first = {"0": 0, "1": 1, "lowest": limits.min, "largest": limits.max}[start]
        ids = segment_ids.reshape(-1, 1).astype(np.int64)
        y = _full([num_segments, *rows], first, x.dtype)
        return ops.scatter_nd(y, ids, x.reshape(-1, *rows), reduction=reduction)

    details = "Inputs: the rows, their segments, and the number of segments, a constant."
    summary = f"Reduce the rows of each segment ({reduction})."
    return row(summary, reduce_segments, "unsorted_segment", details, num_segments=integer)


def _segment_sum(x: Array, segment_ids: list[int]) -> Array:
    y = _full([max(segment_ids, default=-1) + 1, *x.shape[1:]], 0, x.dtype)
    return ops.scatter_nd(y, np.array(segment_ids, np.int64)[:, None], x, reduction="add")


def _set_diagonal(x: Array, diagonal: Array) -> Array:
    rows, columns = x.shape[-2:]
    size = min(rows, columns)
    need(diagonal.shape[-1] == size, f"the diagonal has {diagonal.shape[-1]} elements, expected {size}")
    wide = diagonal[..., None] if rows <= columns else diagonal[..., None, :]
    return np.where(np.eye(rows, columns, dtype=bool), wide, x)


def _diagonal(x: Array) -> Array:
    return _set_diagonal(_full([*x.shape, x.shape[-1]], 0, x.dtype), x)


_with_count, _with_scores = (
    partial(of_tensorflow(f"NonMaxSuppressionV{i}"), pad_to_max_output_size=True) for i in (4, 5)
)

operators(
    TFLiteLayer,
    SOURCE,
    {
        "SCATTER_ND": row("Add updates to an array of zeros at the given places.", _scatter, "scatter_nd",
            "Inputs: indices, updates, and the shape, a constant.", shape=integers),
        "SPARSE_TO_DENSE": row("Write values to an array of a default value at the given places.",
            _sparse_to_dense, "sparse_to_dense",
            "Inputs: indices, the shape, a constant, values, the default value.", shape=integers,
            validate_indices=attribute("bool", False)),
        "DYNAMIC_UPDATE_SLICE": row("Replace a part of an array.", _update_slice, "dynamic_update_slice",
            "Inputs: the array, the part, and where it begins."),
        "EMBEDDING_LOOKUP": row("Select the rows of a matrix.", lambda ids, x: ops.gather(x, ids, axis=0),
            "embedding_lookup", "Inputs: the numbers of the rows, and the matrix."),
        "UNSORTED_SEGMENT_SUM": _segments("add"),
        "UNSORTED_SEGMENT_PROD": _segments("mul", "1"),
        "UNSORTED_SEGMENT_MAX": _segments("max", "lowest"),
        "UNSORTED_SEGMENT_MIN": _segments("min", "largest"),
        "SEGMENT_SUM": row("Add the rows of each segment.", _segment_sum, "segment_sum",
            "The segments are a constant.", segment_ids=integers),
        "MATRIX_DIAG": row("Write values to the diagonal of matrices of zeros.", _diagonal, "matrix_diag"),
        "MATRIX_SET_DIAG": row("Write values to the diagonal of matrices.", _set_diagonal, "matrix_set_diag"),
        "NON_MAX_SUPPRESSION_V4": row("Return the indices of the best boxes, and their number.", _with_count,
            "non_max_suppression", "The indices are followed by zeros.",
            max_output_size=integer, iou_threshold=number, score_threshold=number),
        "NON_MAX_SUPPRESSION_V5": row("Return the indices of the best boxes, their scores, and their number.",
            _with_scores, "non_max_suppression",
            "The indices and scores are followed by zeros. soft_nms_sigma must be 0.",
            max_output_size=integer, iou_threshold=number, score_threshold=number, soft_nms_sigma=number),
    },
)  # fmt: skip
