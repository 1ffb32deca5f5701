"""Operators that write by index, sum segments, or select boxes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import cast

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, need, need_shape
from anylayer.layer.arguments import integer, integers, number
from anylayer.layers._detections import LOWEST, below, corners
from anylayer.layers._table import OperatorType, of_tensorflow, operators, row
from anylayer.layers.tflite._base import SOURCE, TFLiteLayer
from anylayer.network import MAX_VALUES, DType, Function

_MAX_DETECTIONS = 1 << 16


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


def _corners(code: Array, anchors: Array) -> Array:
    """Return the corners (N, 4) of boxes y, x, h, w that are relative to their anchors."""
    return corners(code[:, :2] * anchors[:, 2:] + anchors[:, :2], np.exp(code[:, 2:]) * anchors[:, 2:])


def _best_of_classes(nms: Function, scores: Array, per_class: int, most: int) -> tuple[Array, Array, Array, Array]:
    """Return the boxes, classes and scores (M, 1) of the best boxes of all classes, and their number."""
    classes, n = scores.shape
    selected, count = nms(scores[None], max_per_class=per_class)
    label, box = (np.maximum(selected[:, i], 0) for i in (1, 2))
    best = ops.gather(scores.reshape(classes * n), label * n + box)
    best = np.where(np.arange(best.shape[0]) < count, best, LOWEST)
    best, order = ops.top_k(best, min(most, best.shape[0]))
    return ops.gather(box, order), ops.gather(label, order)[:, None], best[:, None], np.minimum(count, most)


def _detect(
    boxes: Array, scores: Array, anchors: Array, *, num_classes: int, max_detections: int,
    max_classes_per_detection: int, detections_per_class: int, use_regular_nms: bool, nms_score_threshold: float,
    nms_iou_threshold: float, **scales: float,
) -> list[Array]:  # fmt: skip
    n, width, rows, columns = anchors.shape[0], scores.shape[-1], max_detections, max_classes_per_detection
    need_shape(anchors, (n, 4), "the anchors")
    need_shape(boxes, (1, n, max(4, boxes.shape[-1])), "the boxes")
    need_shape(scores, (1, n, width), "the scores")
    need(0 <= width - num_classes <= 1, f"num_classes={num_classes}, but there are {width} scores for each box")
    least = min(num_classes, rows, columns, detections_per_class, nms_iou_threshold)
    need(least > 0 and nms_iou_threshold <= 1, "its limits must be positive, and nms_iou_threshold at most 1")
    need(rows * columns <= _MAX_DETECTIONS, f"{rows * columns} detections; the limit is {_MAX_DETECTIONS}")
    code = boxes[0, :, :4] / np.array([scales[f"{axis}_scale"] for axis in "yxhw"], np.float32)
    corners, table = _corners(code, anchors), scores[0, :, width - num_classes :]
    limits = {"iou_threshold": nms_iou_threshold, "score_threshold": below(nms_score_threshold)}
    nms = partial(cast(Function, ops.nms), corners[None], **limits)
    if use_regular_nms:
        box, labels, best, count = _best_of_classes(nms, table.transpose(1, 0), detections_per_class, rows)
        rows, columns = rows * columns, 1
    else:
        values, classes = ops.top_k(table, min(columns, num_classes))
        selected, count = nms(values[None, None, :, 0], max_per_class=rows)
        box = np.maximum(selected[:, 2], 0)
        labels, best = ops.gather(classes, box), ops.gather(values, box)
    length, wide = best.shape

    def fill(x: Array) -> Array:
        x = np.where((np.arange(length) < count).reshape(length, 1, 1), x, np.float32(0))
        return np.pad(x, ((0, rows - length), (0, columns - wide), (0, 0))).reshape(1, rows * columns, x.shape[2])

    each = ops.gather(corners, box)[:, None] + np.zeros((1, wide, 1), np.float32)
    lists = [fill(x.astype(np.float32)[:, :, None])[:, :, 0] for x in (labels, best)]
    return [fill(each), *lists, count.astype(np.float32).reshape(1)]


_with_count, _with_scores = (
    partial(of_tensorflow(f"NonMaxSuppressionV{i}"), pad_to_max_output_size=True) for i in (4, 5)
)

_INT, _REAL = attribute("int32"), attribute("float")

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
        "TFLite_Detection_PostProcess": row("Decode boxes, and keep the best ones that do not overlap.", _detect,
            "detection_postprocess",
            "Inputs: boxes (1, N, 4 or more), each y, x, h, w relative to its anchor; scores (1, N, C), or C + 1 "
            "with those of the background; anchors (N, 4). Outputs: corners (1, D, 4), classes (1, D), scores "
            "(1, D), and the number of detections (1,); zeros follow. With use_regular_nms, NMS is within each "
            "class. Otherwise it is by the best class of a box, of which max_classes_per_detection are returned.",
            **dict.fromkeys(("num_classes", "max_detections", "max_classes_per_detection"), _INT),
            **{f"{axis}_scale": _REAL for axis in "yxhw"}, detections_per_class=attribute("int32", 100),
            use_regular_nms=attribute("bool", False), nms_score_threshold=_REAL, nms_iou_threshold=_REAL),
    },
)  # fmt: skip
