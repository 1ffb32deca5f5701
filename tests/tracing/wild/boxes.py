"""Decoding of boxes, and filters by score."""

from __future__ import annotations

import numpy as np

from .case import wild

N = 30


def boxes_of(random, count=N, size=100.0):
    """Return boxes as (x1, y1, x2, y2)."""
    corners = random.random((count, 2)) * size * 0.7
    sizes = random.random((count, 2)) * size * 0.3 + 1
    return np.concatenate([corners, corners + sizes], axis=1).astype(np.float32)


def scores_of(random, share, count=N, classes=None):
    """Return scores of which about `share` are above 0.5."""
    shape = (count,) if classes is None else (count, classes)
    chosen = random.random(shape) < share
    return np.where(chosen, 0.55 + random.random(shape) * 0.4, random.random(shape) * 0.45).astype(np.float32)


def scored(random, share):
    return boxes_of(random), scores_of(random, share)


def classified(random, share):
    return boxes_of(random), scores_of(random, share, classes=5)


@wild(scored)
def keep_confident(boxes, scores):
    keep = np.where(scores >= 0.5)[0]
    return boxes[keep, :], scores[keep]


@wild(classified)
def best_class_above_threshold(boxes, scores):
    labels = np.argmax(scores, axis=1)
    confidence = scores[np.arange(scores.shape[0]), labels]
    mask = confidence > 0.5
    return np.concatenate([boxes[mask], confidence[mask][:, None], labels[mask][:, None]], axis=1)


@wild(scored)
def empty_detections_first(boxes, scores):
    index = np.nonzero(scores > 0.5)[0]
    if len(index) == 0:
        return np.zeros((0, 5), dtype=np.float32)
    chosen = boxes[index]
    return np.hstack((chosen, scores[index, np.newaxis])).astype(np.float32)


@wild(scored)
def order_and_cut(boxes, scores):
    mask = scores > 0.5
    boxes, scores = boxes[mask], scores[mask]
    order = np.argsort(-scores, kind="stable")[:10]
    return boxes[order], scores[order]


@wild(scored)
def count_and_mean(boxes, scores):
    kept = boxes[scores > 0.5]
    count = max(kept.shape[0], 1)
    return kept.sum(axis=0) / count, np.float32(kept.shape[0])


@wild(classified)
def rows_and_columns(boxes, scores):
    rows, labels = np.where(scores > 0.5)
    return boxes[rows], scores[rows, labels], labels


@wild(scored)
def areas_of_kept(boxes, scores):
    x1, y1, x2, y2 = boxes[scores > 0.5].T
    return (x2 - x1 + 1) * (y2 - y1 + 1)


@wild(scored)
def drop_small(boxes, scores):
    widths = boxes[:, 2] - boxes[:, 0]
    heights = boxes[:, 3] - boxes[:, 1]
    keep = np.where((widths >= 16) & (heights >= 16) & (scores > 0.5))[0]
    return boxes[keep], keep


@wild(scored)
def class_in_front(boxes, scores):
    kept = boxes[scores > 0.5]
    return np.c_[np.zeros(len(kept), dtype=np.float32), kept]


@wild(scored)
def first_k_of_mask(boxes, scores):
    k = (scores > 0.5).sum()
    order = scores.argsort(kind="stable")[::-1][:k]
    return boxes[order]


@wild(scored)
def joined_levels(boxes, scores):
    parts = [boxes[scores > 0.5], boxes[(scores > 0.2) & (scores <= 0.5)]]
    return np.concatenate(parts, axis=0)


@wild(scored)
def centers_of_kept(boxes, scores):
    kept = boxes[np.flatnonzero(scores > 0.5)]
    return np.column_stack([(kept[:, 0] + kept[:, 2]) / 2, (kept[:, 1] + kept[:, 3]) / 2])


@wild(scored)
def filled_rows(boxes, scores):
    kept = boxes[scores > 0.5]
    rows = np.zeros((kept.shape[0], 7), dtype=np.float32)
    rows[:, 1] = 1
    rows[:, 3:] = kept
    return rows


@wild(scored)
def without_the_best(boxes, scores):
    best = np.argmax(scores)
    return np.delete(boxes, best, axis=0), np.delete(scores, best)


@wild(scored)
def overlaps_of_kept(boxes, scores):
    kept = boxes[scores > 0.5]
    low = np.maximum(kept[:, None, :2], kept[None, :, :2])
    high = np.minimum(kept[:, None, 2:], kept[None, :, 2:])
    return np.prod(np.clip(high - low, 0, None), axis=2)


@wild(classified)
def box_of_the_best_class(boxes, scores):
    of_classes = np.concatenate([boxes[:6] + k for k in range(scores.shape[1])], axis=1)
    best = scores.argmax(axis=1)
    found = np.zeros((6, 5), np.float32)
    for i in range(6):
        found[i, 1:] = of_classes[i, 4 * best[i] : 4 * (best[i] + 1)]
        of_classes[i, 4 * best[i] : 4 * best[i] + 2] = -1
        rest = of_classes[i, best[i] + 1 : best[i] + 3]
        rest += best[i]
    return found, of_classes


@wild(classified)
def window_that_ends_early(boxes, scores):
    k = scores[:, 0].argmax()
    return boxes[:, 0][k : k + 3], boxes[k : k + 2, 1]
