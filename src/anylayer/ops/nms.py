"""Non-maximum suppression."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.ops._operator import operator
from anylayer.ops._spatial import need_room, whole
from anylayer.tracing import record


def _check(boxes: Any, scores: Any, max_per_class: Any, iou_threshold: float) -> tuple[int, int]:
    """How many are kept a class, and the most rows there can be."""
    need(
        len(boxes.shape) == 3 and boxes.shape[2] == 4,
        f"boxes must be of shape (B, N, 4), got {tuple(boxes.shape)}",
    )
    need(
        len(scores.shape) == 3 and (scores.shape[0], scores.shape[2]) == tuple(boxes.shape[:2]),
        f"scores must be of shape ({boxes.shape[0]}, classes, {boxes.shape[1]}), got {tuple(scores.shape)}",
    )
    need(0 <= iou_threshold <= 1, f"iou_threshold must be between 0 and 1, got {iou_threshold}")
    kept = min(whole(max_per_class, "max_per_class"), boxes.shape[1])
    need_room((*scores.shape[:2], kept, 3), "the result")
    return kept, scores.shape[0] * scores.shape[1] * kept


@operator
def nms(
    boxes: Any, scores: Any, *, max_per_class: int, iou_threshold: float, score_threshold: float | None = None
) -> Any:
    """Keep, class by class, the best boxes that overlap no better one (ONNX NonMaxSuppression-11).

    `boxes` (B, N, 4) are two opposite corners each, `scores` (B, C, N). Only scores above `score_threshold`
    count. A box is dropped where its intersection over union with a kept one exceeds `iou_threshold`; boxes
    without area overlap nothing. Of equal scores the lower index is better.
    Returns `selected` (M, 3) int64, rows (batch, class, box) by batch, class and falling score, with
    M = B * C * min(max_per_class, N) and rows of -1 behind them, and `count` (), int64, how many are real.
    """
    kept, most = _check(boxes, scores, max_per_class, iou_threshold)
    rows: list[tuple[int, int, int]] = []
    for b in range(boxes.shape[0]):
        low, high = np.minimum(boxes[b, :, :2], boxes[b, :, 2:]), np.maximum(boxes[b, :, :2], boxes[b, :, 2:])
        for c in range(scores.shape[1]):
            found = _one_class(low, high, scores[b, c], kept, iou_threshold, score_threshold)
            rows += [(b, c, i) for i in found]
    rows += [(-1, -1, -1)] * (most - (count := len(rows)))
    return np.array(rows, np.int64).reshape(most, 3), np.array(count, np.int64)


def _one_class(
    low: Any, high: Any, scores: Any, kept: int, iou_threshold: float, least: float | None
) -> list[int]:
    """Indices of the boxes of one class that stay, best first."""
    order = np.argsort(-scores, kind="stable")
    if least is not None:
        order = order[scores[order] > scores.dtype.type(least)]
    threshold = low.dtype.type(iou_threshold)
    found: list[int] = []
    low, high = low[order], high[order]
    area = (high - low).prod(axis=1)
    while len(order) and len(found) < kept:
        found.append(int(order[0]))
        sides = np.minimum(high[0], high) - np.maximum(low[0], low)
        common = np.where((sides > 0).all(axis=1), sides.prod(axis=1), 0)
        union = area[0] + area - common
        stays = common <= 0
        np.logical_or(stays, common / np.where(union > 0, union, 1) <= threshold, out=stays)
        stays[0] = False
        order, low, high, area = order[stays], low[stays], high[stays], area[stays]
    return found


@nms.form
def _(
    boxes: Any, scores: Any, *, max_per_class: int, iou_threshold: float, score_threshold: float | None = None
) -> Any:
    """NonMaxSuppression, its result padded to M rows: as fast as the unpadded one (0.22 ms for 1917 x 21 boxes),
    and every size behind it is known."""
    kept, most = _check(boxes, scores, max_per_class, iou_threshold)
    inputs = [boxes, scores, np.array([kept]), np.array([iou_threshold], np.float32)]
    if score_threshold is not None:
        inputs.append(np.array([score_threshold], np.float32))
    found = record("NonMaxSuppression", inputs, ("kept", 3), np.int64)
    size = record("Shape", [found], (2,), np.int64)
    count = record("Gather", [size, np.array(0)], (), np.int64)
    missing = record("Sub", [np.array([most, 3]), size], (2,), np.int64)
    pads = record("Concat", [np.zeros(2, np.int64), missing], (4,), np.int64, axis=0)
    return record("Pad", [found, pads, np.array(-1)], (most, 3), np.int64), count
