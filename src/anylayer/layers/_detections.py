"""What the detection layers share: boxes without area, rows of detections, the output without detections."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.network import Array

LOWEST = np.float32(np.finfo(np.float32).min)
"""-FLT_MAX, which is below every valid score."""


def below(value: float) -> float:
    """Return the float32 before `value`. For finite scores, s >= value means s > below(value)."""
    return float(np.nextafter(np.float32(value), np.float32(-np.inf)))


def among_best(scores: Array, k: int) -> Any:
    """Return which of `scores` (..., N) are among the `k` best of their row, the earlier of equal ones.

    Only the k-th value is taken from TopK, not the indices, since indices in a defined order are slow (80 times
    slower in OpenVINO with ties sorted by index).
    """
    if k >= scores.shape[-1]:
        return np.full(scores.shape, True)
    best, _ = ops.top_k(scores, k)
    least = best[..., k - 1 :]
    equal, room = scores == least, (best == least).sum(axis=-1, keepdims=True)
    return (scores > least) | (equal & (equal.cumsum(axis=-1) <= room))


def only_best(scores: Array, k: int, least: float) -> Array:
    """Return `scores` (N, C, P) where they exceed `least` and are among the `k` best of their row, else LOWEST.

    Of equal scores the earlier are better. An NMS that drops nothing sorts only the scores above `least`, which
    are far fewer than a TopK sorts.
    """
    n, c, p = scores.shape
    points = np.zeros((n, p, 4), np.float32)
    triples, count = ops.nms(points, scores, max_per_class=k, iou_threshold=1.0, score_threshold=least)
    places = np.maximum((triples[:, 0] * c + triples[:, 1]) * p + triples[:, 2], 0)
    places = np.where(np.arange(triples.shape[0]) < count, places, places[:1])  # unused entries repeat the first
    best = ops.scatter_elements(np.full(n * c * p, LOWEST), places, scores.reshape(-1)[places])
    return best.reshape(n, c, p)


def rows_of_images(image: Array, count: Array, images: int) -> tuple[Array, Array]:
    """Return the first row of each image, and the number of its rows, both (images, 1).

    `image` (M,) is the image of each row, in ascending order, and the first `count` rows are valid.
    """
    number = ((image == np.arange(images)[:, None]) & (np.arange(image.shape[0]) < count)).sum(
        axis=1, keepdims=True
    )
    return np.cumsum(number, axis=0) - number, number


def best_first(scores: Array, k: int) -> tuple[Array, Array]:
    """Return the indices (N, k) of the `k` best of `scores` (N, P), and how many of them exceed LOWEST, (N, 1).

    Of equal scores the earlier are better. The other indices are not defined. An NMS that drops nothing sorts
    only the scores above LOWEST, which OpenVINO does 600 times faster than a TopK of 400 in 87320.
    """
    n, p = scores.shape
    points = np.zeros((n, p, 4), np.float32)
    triples, count = ops.nms(
        points, scores[:, None], max_per_class=k, iou_threshold=1.0, score_threshold=float(LOWEST)
    )
    first, number = rows_of_images(triples[:, 0], count, n)
    return np.maximum(triples[:, 2], 0)[np.minimum(first + np.arange(k), n * k - 1)], number


def corners(centre: Array, size: Array) -> Array:
    """Return the starts and ends (..., 4) of boxes with these centers and sizes (..., 2)."""
    half = size * size.dtype.type(0.5)
    return np.concatenate([centre - half, centre + half], axis=-1)


def for_overlap(boxes: Array, extra: float = 0.0) -> Array:
    """Return `boxes` (..., 4) in the form in which ops.nms computes Caffe's overlaps.

    A box whose end lies before its start has no area in Caffe's bbox_util, and so no overlap, whereas ONNX would
    swap its corners: it becomes a point. `extra` is the number that Caffe adds to width and height of a box in
    pixels. It extends the boxes, and so their intersections. (Boxes with a gap below `extra` then overlap, which
    they do not in Caffe. For `extra` 1 this exceeds a threshold of 0.5 only between boxes narrower than one
    pixel.)
    """
    ordered = (boxes[..., 2:] >= boxes[..., :2]).all(axis=-1, keepdims=True)
    wider = boxes + np.array([0, 0, extra, extra], np.float32) if extra else boxes
    return np.where(ordered, wider, np.float32(0))


def keep_best(
    boxes: Array, scores: Array, most: int, threshold: float, least: float = float(LOWEST), extra: float = 0.0
) -> tuple[Array, Array, Array, Array]:
    """Apply NMS to boxes (O, P, 4) with scores (O, C, P), within each class: keep at most `most`, best first.

    A box is dropped if it overlaps a better one by more than `threshold`, or if its score does not exceed `least`.
    extra: see for_overlap. Return the owner, the class and the box of each that is kept, (M,) padded with zeros,
    and their number.
    """
    selected, count = ops.nms(
        for_overlap(boxes, extra),
        scores,
        max_per_class=most,
        iou_threshold=min(threshold, 1.0),
        score_threshold=least,
    )
    owner, label, box = (np.maximum(selected[:, i], 0) for i in range(3))
    return owner, label, box, count


def marked_by_nms(boxes: Array, scores: Array, threshold: float) -> Array:
    """Return which boxes (N, P, 4) NMS keeps, as (N, P).

    `scores` (N, C, P) are LOWEST in the classes to which a box does not belong. It belongs to at most one.
    """
    n, p = boxes.shape[:2]
    selected, count = ops.nms(
        for_overlap(boxes),
        scores,
        max_per_class=p,
        iou_threshold=min(threshold, 1.0),
        score_threshold=float(LOWEST),
        max_rows=n * p,
    )
    places = np.maximum(selected[:, 0] * p + selected[:, 2], 0)
    places = np.where(np.arange(places.shape[0]) < count, places, places[:1])  # unused entries repeat the first
    marks = np.broadcast_to((count > 0).astype(np.float32), places.shape)
    return ops.scatter_elements(np.zeros(n * p, np.float32), places, marks).reshape(n, p) > 0


def decreasing_thresholds(threshold: float, eta: float) -> list[float]:
    """Return the thresholds of adaptive NMS: each kept box multiplies one above 0.5 by `eta`."""
    thresholds = [float(np.float32(threshold))]
    while eta < 1 and thresholds[-1] > 0.5 and len(thresholds) < 1000:
        thresholds.append(float(np.float32(thresholds[-1]) * np.float32(eta)))
    return thresholds


def adaptive(boxes: Array, scores: Array, thresholds: Sequence[float], least: float) -> tuple[Array, Array]:
    """Return the boxes kept by an NMS whose threshold decreases from kept box to kept box.

    `boxes` (O, K, 4) are sorted by descending `scores` (O, K); boxes with scores of at most `least` are ignored.
    Boxes are kept one by one while the threshold decreases, and ops.nms does the rest. Returns ascending flat
    indices into O
    * K, valid ones first, and their number. Source: bbox_util.cpp ApplyNMSFast with eta.
    """
    o, k = scores.shape
    place, none = np.arange(k), np.int64(o * k)
    alive, worst, places = scores > np.float32(least), np.float32(0), []
    for threshold in thresholds[:-1]:
        fits = alive & (worst <= np.float32(threshold))
        first = fits.argmax(axis=1)[:, None]
        some = fits.any(axis=1, keepdims=True)
        places.append(np.where(some, np.arange(o)[:, None] * k + first, none))
        winners = boxes.reshape(-1, 4)[np.arange(o)[:, None] * k + first]
        worst = np.maximum(worst, overlaps(boxes, winners))
        alive = alive & (place > first) & some
    alive = alive & (worst <= np.float32(thresholds[-1]))
    order = np.where(alive, np.arange(k, 0, -1).astype(np.float32), np.float32(0))[:, None]
    last = min(thresholds[-1], 1.0)
    selected, count = ops.nms(boxes, order, max_per_class=k, iou_threshold=last, score_threshold=0.0)
    rest = np.where(np.arange(o * k) < count, selected[:, 0] * k + selected[:, 2], none)
    flat = np.sort(np.concatenate([*(f.reshape(-1) for f in places), rest]))[: o * k]
    return np.minimum(flat, none - 1), (flat < none).sum()


def overlaps(boxes: Array, other: Array) -> Any:
    """Return the intersection over union of boxes (O, K, 4) with one box per row (O, 1, 4)."""
    sides = np.minimum(boxes[..., 2:], other[..., 2:]) - np.maximum(boxes[..., :2], other[..., :2])
    sides = np.maximum(sides, np.float32(0))
    common = sides[..., 0] * sides[..., 1]
    size, size_of_other = boxes[..., 2:] - boxes[..., :2], other[..., 2:] - other[..., :2]
    union = size[..., 0] * size[..., 1] + size_of_other[..., 0] * size_of_other[..., 1] - common
    return np.where(common > 0, common / np.where(common > 0, union, np.float32(1)), np.float32(0))


def overlaps_of_pixels(boxes: Array, other: Array) -> Any:
    """Return what `overlaps` returns, with 1 added to the sides of boxes, but not to those of intersections."""
    sides = np.minimum(boxes[..., 2:], other[..., 2:]) - np.maximum(boxes[..., :2], other[..., :2])
    common = np.maximum(sides, np.float32(0)).prod(axis=-1)
    area, area_of_other = ((x[..., 2:] - x[..., :2] + np.float32(1)).prod(axis=-1) for x in (boxes, other))
    return common / (area + area_of_other - common)


def kept_pairwise(
    boxes: Array, label: Array, score: Array, threshold: float, iou: Callable[[Array, Array], Array] = overlaps
) -> Array:
    """Return which boxes (K, 4) are kept when each pair of them drops one, as (K,).

    Of two boxes with the same label whose `iou` exceeds the threshold, both not dropped yet, the one with the
    lower score is dropped, of equal ones the later. The pairs are taken in the order of the boxes, so a box may be
    dropped by one that is dropped afterwards, which an NMS in the order of the scores never does. `iou` is called
    as `overlaps`. Source: the detection layers of Sophgo's Caffe.
    """
    alive = np.ones(len(score), bool)
    for i in range(len(score)):
        if alive[i]:
            rest = slice(i + 1, None)
            near = iou(boxes[None, rest], boxes[None, i : i + 1])[0] > np.float32(threshold)
            at = i + 1 + np.flatnonzero(near & alive[rest] & (label[rest] == label[i]))
            better = np.flatnonzero(score[at] > score[i])[:1]
            alive[i] = not len(better)
            alive[at[: better[0]] if len(better) else at] = False
    return alive


def rows(image: Array, label: Array, score: Array, boxes: Array) -> Array:
    """Return rows [image, label, score, 4 box values] (K, 7) in float32, from columns (K,) and boxes (K, 4)."""
    columns = [np.expand_dims(c.astype(np.float32), 1) for c in (image, label, score)]
    return np.concatenate([*columns, boxes], axis=1)


def output(table: Array, count: Array, images: int) -> Array:
    """Return the first `count` rows of `table` (K, 7), K >= images, as (1, 1, D, 7).

    If `count` is 0, it is one row [i, -1, -1, -1, -1, -1, -1] per image i, as SSD writes it
    (detection_output_layer.cpp, "Couldn't find any detections").
    """
    size = table.shape[0]
    index = np.arange(size)
    image = np.where(index < images, index, -1).astype(np.float32)[:, None]
    none = np.concatenate([image, np.full((size, 6), -1, np.float32)], axis=1)
    filled = np.where((index < count)[:, None], table, none)
    return ops.head(filled, np.where(count > 0, count, np.int64(images)))[None, None]
