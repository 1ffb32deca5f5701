"""Non-maximum suppression (NMS)."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need, need_shape
from anylayer.graph.symbolic import extreme, symbolic_shape
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import integer, need_room
from anylayer.tracing import record

_MAX_CACHE = 1 << 26  # elements of the masks that are kept


def _check(
    boxes: Array, scores: Array, max_per_class: int, iou_threshold: float, max_rows: int | None
) -> tuple[int, int]:
    """Return how many boxes are kept per class, and the number of rows of the result."""
    need_shape(boxes, ("B", "N", 4), "boxes")
    need_shape(scores, (boxes.shape[0], "classes", boxes.shape[1]), "scores")
    need(0 <= iou_threshold <= 1, f"iou_threshold must be between 0 and 1, got {iou_threshold}")
    limit = min(integer(max_per_class, "max_per_class"), boxes.shape[1])
    rows = scores.shape[0] * scores.shape[1] * limit
    rows = rows if max_rows is None else extreme("min", rows, max_rows)
    need_room((rows, 3), "the result")
    return limit, rows


@operator
def nms(
    boxes: Array, scores: Array, *, max_per_class: int, iou_threshold: float, score_threshold: float | None = None,
    max_rows: int | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Keep the best boxes of each class that do not overlap a better one (ONNX NonMaxSuppression-11).

    `boxes` (B, N, 4) holds two opposite corners per box, `scores` (B, C, N) the scores. Only scores above
    `score_threshold` count. A box is dropped if its intersection over union with a kept box exceeds
    `iou_threshold`; boxes without area overlap nothing. Of equal scores, the lower index is better. Returns
    `selected` (M, 3) and `count` (), both int64. `selected` has rows (batch, class, box), ordered by batch, class
    and descending score. M = B * C * min(max_per_class, N), or `max_rows` if the caller knows that no more boxes
    are kept; the first `count` rows are results, the rest are -1.
    Raises LayerError for other shapes, an `iou_threshold` outside [0, 1], and for NumPy arrays if more than
    `max_rows` boxes are kept.
    """
    kept, rows_max = _check(boxes, scores, max_per_class, iou_threshold, max_rows)
    rows: list[tuple[int, int, int]] = []
    for b in range(boxes.shape[0]):
        overlaps = _Overlaps(boxes[b], iou_threshold)
        for c in range(scores.shape[1]):
            selected = _one_class(overlaps, scores[b, c], kept, score_threshold)
            rows += [(b, c, i) for i in selected]
    need(len(rows) <= rows_max, f"NMS keeps {len(rows)} boxes, more than max_rows={max_rows}")
    rows += [(-1, -1, -1)] * (rows_max - (count := len(rows)))
    return np.array(rows, np.int64).reshape(rows_max, 3), np.array(count, np.int64)


class _Overlaps:
    """The overlaps between the boxes of one image, computed on demand and cached for all classes."""

    def __init__(self, boxes: Array, threshold: float) -> None:
        low, high = np.minimum(boxes[:, :2], boxes[:, 2:]), np.maximum(boxes[:, :2], boxes[:, 2:])
        self.sides = [(np.ascontiguousarray(low[:, a]), np.ascontiguousarray(high[:, a])) for a in (0, 1)]
        self.area = (high - low).prod(axis=1)
        self.threshold = boxes.dtype.type(threshold)
        self._masks: dict[int, Array] = {}

    def of(self, i: int) -> Array:
        """Return a mask of the boxes whose intersection over union with box `i` exceeds the threshold."""
        mask = self._masks.get(i)
        if mask is None:
            width, height = (np.minimum(high[i], high) - np.maximum(low[i], low) for low, high in self.sides)
            common = np.maximum(width, 0) * np.maximum(height, 0)
            union = self.area[i] + self.area - common
            share = np.divide(common, union, out=np.zeros_like(common), where=common > 0)
            mask = (common > 0) & (share > self.threshold)
            if len(self._masks) * len(mask) < _MAX_CACHE:
                self._masks[i] = mask
        return mask


def _one_class(overlaps: _Overlaps, scores: Array, limit: int, least: float | None) -> list[int]:
    """Return the indices of the boxes of one class that are kept, best first. `least` is the score threshold."""
    order = np.argsort(-scores, kind="stable")
    if least is not None:
        order = order[scores[order] > scores.dtype.type(least)]
    if overlaps.threshold >= 1:
        return list(order[:limit].tolist())
    selected: list[int] = []
    dropped = np.zeros(len(scores), bool)
    for i in order.tolist():
        if len(selected) == limit:
            break
        if not dropped[i]:
            selected.append(i)
            dropped |= overlaps.of(i)
    return selected


def _points(scores: Array) -> Array:
    """Return boxes of zeros for scores (N, C, P) with symbolic sizes, with a last size that OpenVINO can infer."""
    first = scores[:, 0]
    zeros = ((first > 0) & (first <= 0)).astype(scores.dtype)
    return np.stack([zeros] * 4, axis=-1)


@nms.form
def _(
    boxes: Array, scores: Array, *, max_per_class: int, iou_threshold: float, score_threshold: float | None = None,
    max_rows: int | None = None,
) -> tuple[Array, Array]:  # fmt: skip
    """Record NonMaxSuppression and pad its result to M rows, so that all following sizes are static.

    The padded result is as fast as the unpadded one (0.22 ms for 1917 x 21 boxes).
    """
    kept, rows_max = _check(boxes, scores, max_per_class, iou_threshold, max_rows)
    if iou_threshold >= 1:  # OpenVINO computes more than 1 for equal boxes; boxes without area overlap nothing
        boxes = _points(scores) if symbolic_shape(scores.shape) else np.zeros(boxes.shape, boxes.dtype)
    inputs = [boxes, scores, np.array([kept]), np.array([iou_threshold], np.float32)]
    if score_threshold is not None:
        inputs.append(np.array([score_threshold], np.float32))
    selected = record("NonMaxSuppression", inputs, ("kept", 3), np.int64)
    size = record("Shape", [selected], (2,), np.int64)
    count = record("Gather", [size, np.array(0)], (), np.int64)
    missing = record("Sub", [np.array([rows_max, 3]), size], (2,), np.int64)
    pads = record("Concat", [np.zeros(2, np.int64), missing], (4,), np.int64, axis=0)
    return record("Pad", [selected, pads, np.array(-1)], (rows_max, 3), np.int64), count
