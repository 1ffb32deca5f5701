"""Non-maximum suppression as OpenCV's dnn computes it: the same indices in the same order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from anylayer.errors import InputError, need
from anylayer.network import Array
from anylayer.opencv.constants import SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN, SOFT_NMSMETHOD_SOFTNMS_LINEAR
from anylayer.opencv.errors import converted

Overlaps = Callable[[int, list[int]], NDArray[np.float32]]
"""A function that returns the overlap of one box with each of several others, by their indices."""

Indices = NDArray[np.int32] | tuple[()]
"""Indices of boxes; as OpenCV returns them, () where there are none."""


@converted
def NMSBoxes(
    bboxes: Any, scores: Any, score_threshold: float, nms_threshold: float, eta: float = 1.0, top_k: int = 0
) -> Indices:
    """Return the indices of the boxes (x, y, width, height) that are kept, best score first.

    A box is kept if its score is above `score_threshold` and it overlaps no kept box by more than
    `nms_threshold`. Each kept box multiplies this threshold by `eta` while it is above 0.5. top_k: look only at
    the best boxes, 0 for all.
    """
    boxes, values = _boxes(bboxes, scores)
    return _keep(values, score_threshold, nms_threshold, eta, top_k, _overlaps(boxes))


@converted
def NMSBoxesBatched(
    bboxes: Any,
    scores: Any,
    class_ids: Sequence[int],
    score_threshold: float,
    nms_threshold: float,
    eta: float = 1.0,
    top_k: int = 0,
) -> Indices:
    """Return the indices of the boxes that are kept, where only boxes of the same class suppress each other."""
    boxes, values = _boxes(bboxes, scores)
    classes = np.asarray(class_ids, np.int64).ravel()
    need(len(classes) == len(values), f"{len(classes)} class_ids for {len(values)} boxes", InputError)
    if len(boxes):
        ends = boxes[:, :2] + boxes[:, 2:]
        farthest = max(0.0, float(boxes[:, :2].max()), float(ends.max()))
        boxes = np.concatenate([boxes[:, :2] + (classes * (farthest + 1))[:, None], boxes[:, 2:]], axis=1)
    return _keep(values, score_threshold, nms_threshold, eta, top_k, _overlaps(boxes))


@converted
def NMSBoxesRotated(
    bboxes: Any, scores: Any, score_threshold: float, nms_threshold: float, eta: float = 1.0, top_k: int = 0
) -> Indices:
    """Return the indices of the rotated boxes ((x, y), (width, height), degrees) that are kept.

    As in OpenCV, a box inside another one overlaps it completely.
    """
    boxes = np.array([[*center, *size, angle] for center, size, angle in bboxes], np.float64).reshape(-1, 5)
    values = np.asarray(scores, np.float32).ravel()
    need(len(boxes) == len(values), f"{len(values)} scores for {len(boxes)} boxes", InputError)
    corners = [_corners(box) for box in boxes]
    areas = boxes[:, 2] * boxes[:, 3]

    def overlaps(i: int, others: list[int]) -> NDArray[np.float32]:
        shared = np.array([_shared_area(corners[i], corners[j]) for j in others])
        inside = shared >= np.minimum(areas[i], areas[others]) * (1 - 1e-5)
        return np.where(inside, 1.0, shared / (areas[i] + areas[others] - shared)).astype(np.float32)

    return _keep(values, score_threshold, nms_threshold, eta, top_k, overlaps)


@converted
def softNMSBoxes(
    bboxes: Any,
    scores: Any,
    score_threshold: float,
    nms_threshold: float,
    top_k: int = 0,
    sigma: float = 0.5,
    method: int = SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN,
) -> tuple[NDArray[np.float32] | tuple[()], Indices]:
    """Return the scores and the indices of the kept boxes. Each kept box lowers the scores of those that it
    overlaps (Bodla et al., Soft-NMS, 2017), by exp(-overlap² / sigma), or linearly above `nms_threshold`."""
    boxes, values = _boxes(bboxes, scores)
    _check(score_threshold, nms_threshold, 1.0)
    need(sigma >= 0, f"sigma cannot be negative, got {sigma}", InputError)
    methods = (SOFT_NMSMETHOD_SOFTNMS_LINEAR, SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN)
    need(method in methods, f"method is 1 (linear) or 2 (Gaussian), got {method}", InputError)
    overlaps = _overlaps(boxes)
    left, current = np.arange(len(values)), values.copy()
    chosen: list[int] = []
    while len(left) and len(chosen) < (top_k or len(values)):
        best = int(left[np.argmax(current[left])])
        if current[best] < np.float32(score_threshold):
            break
        chosen.append(best)
        left = left[left != best]
        shared = overlaps(best, left.tolist())
        if method == SOFT_NMSMETHOD_SOFTNMS_GAUSSIAN:
            current[left] *= np.exp(-(shared * shared) / np.float32(sigma))
        else:
            current[left] *= np.where(shared > np.float32(nms_threshold), 1 - shared, np.float32(1))
        left = left[current[left] >= np.float32(score_threshold)]
    return (current[chosen], np.array(chosen, np.int32)) if chosen else ((), ())


def _boxes(bboxes: Any, scores: Any) -> tuple[NDArray[np.float64], NDArray[np.float32]]:
    """Return boxes as an array (N, 4) and their scores."""
    boxes = np.asarray(bboxes, np.float64)
    boxes = boxes.reshape(-1, 4) if boxes.size % 4 == 0 else boxes
    values = np.asarray(scores, np.float32).ravel()
    need(boxes.ndim == 2, f"a box is (x, y, width, height), got {boxes.size} numbers", InputError)
    need(len(boxes) == len(values), f"{len(values)} scores for {len(boxes)} boxes", InputError)
    return boxes, values


def _overlaps(boxes: NDArray[np.float64]) -> Overlaps:
    """Return the function of the boxes' overlaps: the shared area over the area of both."""
    low, high = boxes[:, :2], boxes[:, :2] + boxes[:, 2:]
    areas = boxes[:, 2] * boxes[:, 3]

    def overlaps(i: int, others: list[int]) -> NDArray[np.float32]:
        sides = np.minimum(high[i], high[others]) - np.maximum(low[i], low[others])
        shared = np.where((sides > 0).all(axis=-1), sides.prod(axis=-1), 0.0)
        both = areas[i] + areas[others]
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.where(both <= np.finfo(np.float64).eps, 0.0, 1.0 - shared / (both - shared))
        return np.float32(1) - distance.astype(np.float32)

    return overlaps


def _check(score_threshold: float, nms_threshold: float, eta: float) -> None:
    need(score_threshold >= 0, f"score_threshold cannot be negative, got {score_threshold}", InputError)
    need(nms_threshold >= 0, f"nms_threshold cannot be negative, got {nms_threshold}", InputError)
    need(eta > 0, f"eta must be positive, got {eta}", InputError)


def _keep(
    scores: NDArray[np.float32], score_threshold: float, nms_threshold: float, eta: float, top_k: int, of: Overlaps
) -> Indices:
    """Return the indices that are kept: a box that overlaps no better box by more than the threshold."""
    _check(score_threshold, nms_threshold, eta)
    order = [int(i) for i in np.argsort(-scores, kind="stable") if scores[i] > np.float32(score_threshold)]
    limit = np.float32(nms_threshold)
    chosen: list[int] = []
    for i in order[:top_k] if top_k > 0 else order:
        if chosen and not (of(i, chosen) <= limit).all():
            continue
        chosen.append(i)
        if eta < 1 and limit > 0.5:
            limit *= np.float32(eta)
    return np.array(chosen, np.int32) if chosen else ()


def _corners(box: Array) -> list[tuple[float, float]]:
    """Return the four corners of a rotated box, in order."""
    x, y, width, height, degrees = box.tolist()
    cosine, sine = np.cos(np.radians(degrees)), np.sin(np.radians(degrees))
    halves = [
        (-width / 2, -height / 2),
        (width / 2, -height / 2),
        (width / 2, height / 2),
        (-width / 2, height / 2),
    ]
    return [(x + cosine * a - sine * b, y + sine * a + cosine * b) for a, b in halves]


def _shared_area(one: list[tuple[float, float]], other: list[tuple[float, float]]) -> float:
    """Return the area that two convex polygons share (Sutherland and Hodgman, 1974)."""
    polygon = one
    for (ax, ay), (bx, by) in zip(other, [*other[1:], other[0]]):
        sides = [(bx - ax) * (y - ay) - (by - ay) * (x - ax) for x, y in polygon]
        clipped: list[tuple[float, float]] = []
        for i, (point, side) in enumerate(zip(polygon, sides)):
            before, last = polygon[i - 1], sides[i - 1]
            if side * last < 0:
                part = last / (last - side)
                (bx, by), (px, py) = before, point
                clipped.append((bx + part * (px - bx), by + part * (py - by)))
            if side >= 0:
                clipped.append(point)
        polygon = clipped
    area = sum(p[0] * q[1] - q[0] * p[1] for p, q in zip(polygon, [*polygon[1:], *polygon[:1]]))
    return abs(area) / 2
