"""Selections by value, early exits, and writes by mask."""

from __future__ import annotations

import numpy as np

from .boxes import boxes_of, classified, scored
from .case import wild
from .keypoints import heatmap


def rotated(random, share):
    boxes = np.concatenate([boxes_of(random), random.random((30, 1)) * 300 - 100], axis=1)
    return [boxes.astype(np.float32), random.standard_normal((30, 5)).astype(np.float32)]


@wild(scored)
def clamped_by_index(boxes, scores):
    boxes = boxes.copy()
    over = np.where(boxes[:, 2] > 60)[0]
    boxes[over, 2] = 60
    return boxes


@wild(rotated)
def angles_in_range(boxes, deltas):
    angle = boxes[:, 4] + deltas[:, 4] * 57
    angle[np.where(angle < -45)] += 180
    angle[np.where(angle > 135)] -= 180
    return angle


@wild(scored)
def padded_crop(boxes, scores):
    x, width = boxes[:, 0] - 20, boxes[:, 2] - boxes[:, 0]
    left = np.zeros(len(boxes))
    index = np.where(x < 0)[0]
    if index.shape[0] != 0:
        left[index] = -x[index]
        x[index] = 0
    return x, left, width.astype(np.int32)


@wild(scored)
def negative_scores_replaced(boxes, scores):
    scores = scores - np.float32(0.5)
    scores[np.where(scores < 0)] = 0
    return np.sqrt(scores)


@wild(scored)
def halves_by_score(boxes, scores):
    high = boxes[scores > 0.5]
    low = boxes[scores <= 0.5]
    return np.concatenate([high, low])


@wild(scored)
def two_branches_of_sizes(boxes, scores):
    chosen = boxes[scores > 0.5]
    if chosen.shape[0] > 0:
        low = chosen[:, :2] - chosen[:, 2:] / 2
    else:
        low = np.zeros((0, 2), np.float32)
    return low


@wild(scored)
def none_found_is_one_row(boxes, scores):
    chosen = boxes[scores > 0.5]
    if len(chosen) == 0:
        return np.full((1, 4), -1, np.float32)
    return chosen


@wild(scored)
def extent_of_kept(boxes, scores):
    chosen = boxes[scores > 0.5]
    if chosen.size == 0:
        return np.zeros(4, np.float32)
    return np.concatenate([chosen[:, :2].min(axis=0), chosen[:, 2:].max(axis=0)])


@wild(scored)
def best_of_kept(boxes, scores):
    index = np.flatnonzero(scores > 0.5)
    if index.size == 0:
        return np.zeros(4, np.float32)
    return boxes[index[np.argmax(scores[index])]]


@wild(heatmap, "IndexError")
def box_of_mask(heat):
    mask = heat > 0.5
    rows, columns = np.where(mask.any(axis=1))[0], np.where(mask.any(axis=0))[0]
    if rows.shape[0] == 0:
        return np.zeros(4, np.int64)
    return np.stack([rows[0], columns[0], rows[-1] + 1, columns[-1] + 1])


@wild(heatmap)
def quarter_offsets(heat):
    ys, xs = np.where(heat[1:-1, 1:-1] > 0.5)
    dx = np.sign(heat[ys + 1, xs + 2] - heat[ys + 1, xs])
    dy = np.sign(heat[ys + 2, xs + 1] - heat[ys, xs + 1])
    return xs + 1 + 0.25 * dx, ys + 1 + 0.25 * dy


@wild(heatmap)
def values_in_place(heat):
    valid = heat > 0.5
    heat = heat.copy()
    heat[valid] -= np.float32(0.5)
    heat[valid] *= 2
    return heat


@wild(classified)
def decoded_and_filtered(boxes, scores):
    centers, sizes = (boxes[:, :2] + boxes[:, 2:]) / 2, boxes[:, 2:] - boxes[:, :2]
    label = scores.argmax(axis=1)
    confidence = scores[np.arange(len(label)), label]
    keep = (confidence > 0.5) & (label > 0)
    return np.hstack([centers[keep], sizes[keep], confidence[keep, None]]), label[keep]


@wild(classified)
def background_dropped(boxes, scores):
    label = scores.argmax(axis=1)
    index = np.nonzero(label)[0]
    return boxes[index], label[index]


@wild(classified)
def counts_per_class(boxes, scores):
    label = scores.argmax(axis=1)
    return np.stack([np.count_nonzero(label == i) for i in range(5)])


@wild(scored)
def indices_back_to_all(boxes, scores):
    index = np.where(scores > 0.5)[0]
    values = np.full(len(scores), -1, np.float32)
    values[index] = scores[index] * 2
    return values


@wild(scored)
def weights_by_two_masks(boxes, scores):
    labels = np.full(scores.shape, -1, np.float32)
    labels[scores < 0.3] = 0
    labels[scores >= 0.7] = 1
    weights = np.zeros((len(scores), 4), np.float32)
    weights[labels == 1, :] = (1, 1, 0.5, 0.5)
    return labels, weights


@wild(scored)
def mean_box_or_zero(boxes, scores):
    chosen = boxes[scores > 0.6]
    return chosen.mean(axis=0) if len(chosen) else np.zeros(4, np.float32)


@wild(scored)
def sorted_then_selected(boxes, scores):
    order = np.argsort(-scores, kind="stable")[:12]
    boxes, scores = boxes[order], scores[order]
    return boxes[scores > 0.5][:5]


@wild(scored)
def selected_twice(boxes, scores):
    keep = scores > 0.5
    boxes, scores = boxes[keep], scores[keep]
    wide = boxes[:, 2] - boxes[:, 0] > 10
    return boxes[wide], scores[wide]


@wild(scored)
def stacked_columns(boxes, scores):
    index = np.where(scores > 0.5)
    x1, y1, x2, y2 = [boxes[index[0], i] for i in range(4)]
    return np.vstack([np.round(x1), np.round(y1), x2, y2, scores[index]]).T


@wild(scored)
def array_of_columns(boxes, scores):
    kept = boxes[scores > 0.5]
    if kept.shape[0] == 0:
        return np.zeros((0, 5))
    return np.array([np.zeros(kept.shape[0]), kept[:, 0], kept[:, 1], -kept[:, 2], -kept[:, 3]]).T


@wild(scored)
def empty_list_if_nothing(boxes, scores):
    kept = boxes[scores > 0.5]
    if len(kept) == 0:
        return np.array([])
    return kept


@wild(scored)
def none_if_nothing(boxes, scores):
    kept = boxes[scores > 0.5]
    if len(kept) == 0:
        return None
    return kept


@wild(scored)
def first_three_of_kept(boxes, scores):
    return boxes[scores > 0.5][:3]


@wild(scored)
def every_other_of_kept(boxes, scores):
    return boxes[scores > 0.5][::2]


@wild(scored)
def reversed_kept(boxes, scores):
    return scores[scores > 0.5][::-1]


@wild(scored)
def cumulative_share(boxes, scores):
    kept = np.sort(scores[scores > 0.5])[::-1]
    return np.cumsum(kept)


@wild(lambda random, share: [np.sort(random.integers(0, 4, 12) / 4), random.random(12)])
def average_precision(recall, precision):
    recall = np.concatenate(([0.0], recall, [1.0]))
    precision = np.concatenate(([0.0], precision, [0.0]))
    for i in range(precision.size - 1, 0, -1):
        precision[i - 1] = np.maximum(precision[i - 1], precision[i])
    i = np.where(recall[1:] != recall[:-1])[0]
    return np.sum((recall[i + 1] - recall[i]) * precision[i + 1])


@wild(classified, "MaskSelection is appended to a list in a loop on data")
def classes_by_set(boxes, scores):
    label = scores.argmax(axis=1)
    return np.concatenate([boxes[label == c] for c in set(label)])


def padded(random, share):
    rows = np.concatenate([boxes_of(random), random.integers(1, 4, (30, 1)), random.random((30, 1))], axis=1)
    rows[round(30 * share) :] = 0
    rows[::3, 2] = rows[::3, 0]
    return rows.astype(np.float32), random.random((30, 5, 5, 4), np.float32)


@wild(padded)
def detections_before_the_padding(rows, masks):
    ends = np.where(rows[:, 4] == 0)[0]
    count = ends[0] if ends.shape[0] > 0 else rows.shape[0]
    labels = rows[:count, 4].astype(np.int32)
    boxes, chosen = rows[:count, :4], masks[np.arange(count), :, :, labels]
    empty = np.where((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]) <= 0)[0]
    if empty.shape[0] > 0:
        boxes = np.delete(boxes, empty, axis=0)
        labels = np.delete(labels, empty, axis=0)
        chosen = np.delete(chosen, empty, axis=0)
    return boxes, labels, chosen
