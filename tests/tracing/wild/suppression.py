"""Non-maximum suppression and other loops until nothing is left, as post-processing writes them."""

from __future__ import annotations

import numpy as np

from .boxes import boxes_of, classified, scored, scores_of
from .case import wild

TOP_BEFORE, TOP_AFTER = 8, 4


def detections(random, share):
    return [np.concatenate([boxes_of(random), scores_of(random, share)[:, None]], axis=1)]


def overlap(box, others):
    """Return the intersection over union of a box and others, all (x1, y1, x2, y2)."""
    size = np.minimum(box[2:], others[:, 2:]) - np.maximum(box[:2], others[:, :2])
    common = np.prod(np.maximum(size, 0), axis=1)
    areas = np.prod(others[:, 2:] - others[:, :2], axis=1)
    return common / (np.prod(box[2:] - box[:2]) + areas - common)


@wild(detections)
def greedy_from_the_front(dets):
    boxes, order = dets[:, :4], np.argsort(-dets[:, 4], kind="stable")
    picked = []
    while order.size > 0:
        picked.append(order[0])
        order = order[1:][overlap(boxes[order[0]], boxes[order[1:]]) <= 0.4]
    return dets[picked]


@wild(detections)
def greedy_from_the_back(dets):
    boxes, order = dets[:, :4], np.argsort(dets[:, 4], kind="stable")
    picked = []
    while len(order) > 0:
        best = order[-1]
        picked.append(best)
        rest = order[:-1]
        order = rest[np.where(overlap(boxes[best], boxes[rest]) <= 0.5)[0]]
    return np.array(picked)


@wild(scored)
def confident_then_greedy(boxes, scores):
    sure = scores > 0.5
    boxes, scores = boxes[sure], scores[sure]
    order, picked = np.argsort(-scores, kind="stable"), []
    while order.size > 0:
        picked.append(order[0])
        order = order[1:][overlap(boxes[order[0]], boxes[order[1:]]) < 0.45]
    return boxes[picked], scores[picked]


@wild(scored)
def most_likely_then_greedy(boxes, scores):
    sure = np.where(scores >= 0.5)[0]
    boxes, scores = boxes[sure, :], scores[sure]
    order = scores.argsort(kind="stable")[::-1]
    if TOP_BEFORE > 0:
        order = order[:TOP_BEFORE]
    boxes, scores, picked = boxes[order, :], scores[order], []
    order = np.arange(scores.shape[0])
    while order.size > 0:
        i, rest = order[0], order[1:]
        picked.append(i)
        order = rest[np.where(overlap(boxes[i], boxes[rest]) <= 0.5)[0]]
    picked = picked[:TOP_AFTER]
    return boxes[picked, :], scores[picked]


@wild(detections)
def at_most_ten(dets):
    order, picked = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size:
        picked.append(order[0])
        order = order[1:][overlap(dets[order[0], :4], dets[order[1:], :4]) <= 0.5]
    return dets[picked[:10]]


@wild(detections)
def areas_computed_before(dets):
    x1, y1, x2, y2 = dets[:, 0], dets[:, 1], dets[:, 2], dets[:, 3]
    areas = (x2 - x1 + 1) * (y2 - y1 + 1)
    order, picked = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size > 0:
        i, rest = order[0], order[1:]
        picked.append(i)
        w = np.maximum(0.0, np.minimum(x2[i], x2[rest]) - np.maximum(x1[i], x1[rest]) + 1)
        h = np.maximum(0.0, np.minimum(y2[i], y2[rest]) - np.maximum(y1[i], y1[rest]) + 1)
        order = rest[np.where(w * h / (areas[i] + areas[rest] - w * h) <= 0.3)[0]]
    return np.array(picked, dtype=np.int64)


@wild(detections)
def smaller_area_as_union(dets):
    boxes, order, picked = dets[:, :4], np.argsort(-dets[:, 4], kind="stable"), []
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    while order.size > 0:
        i, rest = order[0], order[1:]
        picked.append(i)
        size = np.minimum(boxes[i, 2:], boxes[rest, 2:]) - np.maximum(boxes[i, :2], boxes[rest, :2])
        common = np.prod(np.maximum(size, 0), axis=1)
        order = rest[common / np.minimum(areas[i], areas[rest]) <= 0.6]
    return dets[picked]


@wild(detections)
def rows_that_shrink(dets):
    rows, kept = dets[np.argsort(-dets[:, 4], kind="stable")], []
    while len(rows):
        kept.append(rows[0])
        rows = rows[1:][overlap(rows[0, :4], rows[1:, :4]) <= 0.5]
    return np.stack(kept)


@wild(classified)
def each_class_on_its_own(boxes, scores):
    results = []
    for label in range(1, scores.shape[1]):
        chosen = scores[:, label] > 0.5
        part, confidence = boxes[chosen], scores[chosen, label]
        order, picked = np.argsort(-confidence, kind="stable"), []
        while order.size > 0:
            picked.append(order[0])
            order = order[1:][overlap(part[order[0]], part[order[1:]]) <= 0.5]
        results.append(part[picked])
    return np.concatenate(results)


@wild(classified)
def classes_moved_apart(boxes, scores):
    label, best = scores.argmax(axis=1), scores.max(axis=1)
    moved = boxes + (label * 1000).astype(np.float32)[:, None]
    order, picked = np.argsort(-best, kind="stable"), []
    while order.size > 0:
        picked.append(order[0])
        order = order[1:][overlap(moved[order[0]], moved[order[1:]]) <= 0.5]
    return boxes[picked], label[picked]


@wild(detections)
def circles_apart(dets):
    centers = (dets[:, :2] + dets[:, 2:4]) / 2
    order, picked = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size > 0:
        picked.append(order[0])
        far = np.sum((centers[order[1:]] - centers[order[0]]) ** 2, axis=1) > 400
        order = order[1:][far]
    return centers[picked]


@wild(detections)
def deleted_indices(dets):
    order, picked = np.argsort(dets[:, 4], kind="stable"), []
    while len(order) > 0:
        last = len(order) - 1
        i = order[last]
        picked.append(i)
        size = np.minimum(dets[i, 2:4], dets[order[:last], 2:4]) - np.maximum(dets[i, :2], dets[order[:last], :2])
        common = np.prod(np.maximum(size + 1, 0), axis=1)
        over = np.where(common / np.prod(dets[order[:last], 2:4] - dets[order[:last], :2] + 1, axis=1) > 0.5)[0]
        order = np.delete(order, np.concatenate(([last], over)))
    return dets[picked]


@wild(detections)
def soft_suppression(dets):
    boxes, scores = dets[:, :4], dets[:, 4].copy()
    for _ in range(6):
        best = np.argmax(np.where(np.arange(len(scores)) >= 0, scores, -1))
        decay = np.exp(-(overlap(boxes[best], boxes) ** 2) / np.float32(0.5))
        scores = np.where(np.arange(len(scores)) == best, scores, scores * decay)
    return scores


@wild(detections)
def fixed_number_of_picks(dets):
    scores, picked = dets[:, 4].copy(), []
    for _ in range(5):
        best = np.argmax(scores)
        picked.append(best)
        scores = np.where(overlap(dets[best, :4], dets[:, :4]) > 0.5, np.float32(-1), scores)
    return np.stack(picked)


@wild(detections)
def break_when_enough(dets):
    order, picked = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size > 0:
        picked.append(order[0])
        if len(picked) == 3:
            break
        order = order[1:][overlap(dets[order[0], :4], dets[order[1:], :4]) <= 0.5]
    return dets[picked]


@wild(detections)
def matrix_suppression(dets):
    dets = dets[np.argsort(-dets[:, 4], kind="stable")]
    size = np.minimum(dets[:, None, 2:4], dets[None, :, 2:4]) - np.maximum(dets[:, None, :2], dets[None, :, :2])
    common = np.prod(np.maximum(size, 0), axis=2)
    area = np.prod(dets[:, 2:4] - dets[:, :2], axis=1)
    iou = np.triu(common / (area[:, None] + area[None] - common + np.float32(1e-6)), k=1)
    return dets[iou.max(axis=0) < 0.5]


@wild(detections)
def appended_scores(dets):
    order, kept = np.argsort(-dets[:, 4], kind="stable"), []
    while order.size > 0:
        kept.append(dets[order[0], 4] * 2)
        order = order[1:][overlap(dets[order[0], :4], dets[order[1:], :4]) <= 0.5]
    return np.array(kept)


@wild(detections)
def objects_in_a_list(dets):
    found = [{"box": row[:4], "score": row[4]} for row in dets if row[4] > 0.5]
    return np.array([f["score"] for f in found[:3]])


@wild(detections)
def limit_that_is_off(dets, limit=-1):
    picked, order = [], np.argsort(dets[:, 4], kind="stable")[-200:]
    while len(order) > 0:
        best = order[-1]
        picked.append(best)
        if 0 < limit == len(picked) or len(order) == 1:
            break
        order = order[:-1]
        order = order[overlap(dets[best, :4], dets[order, :4]) <= 0.5]
    return dets[picked]


@wild(scored)
def last_of_the_confident(boxes, scores, limit=-1):
    sure = np.where(scores > 0.3)[0]
    boxes, scores = boxes[sure], scores[sure]
    picked, left = [], np.argsort(scores, kind="stable")
    while len(left) > 0:
        last = len(left) - 1
        best = left[last]
        picked.append(best)
        if limit != -1 and len(picked) >= limit:
            break
        shared = overlap(boxes[best], boxes[left[:last]])
        left = np.delete(left, np.concatenate(([last], np.where(shared > 0.5)[0])))
    return sure[picked]


@wild(scored)
def none_unless_confident(boxes, scores):
    sure = scores > 0.5
    if sure.sum() == 0:
        return None
    boxes, scores = boxes[sure], scores[sure]
    order, picked = scores.argsort(kind="stable")[::-1], []
    while order.size > 0:
        picked.append(order[0])
        shared = overlap(boxes[order[0]], boxes[order[1:]])
        order = order[np.where(shared <= 0.4)[0] + 1]
    if picked:
        found = np.concatenate([boxes[picked], scores[picked, None]], axis=1)
    return found


@wild(detections)
def safe_division(dets):
    x1, y1, x2, y2, scores = dets.T
    areas, order, picked = (x2 - x1) * (y2 - y1), scores.argsort(kind="stable")[::-1], []
    while order.size > 0:
        best, rest = order[0], order[1:]
        picked.append(best)
        width = np.maximum(0.0, np.minimum(x2[best], x2[rest]) - np.maximum(x1[best], x1[rest]))
        height = np.maximum(0.0, np.minimum(y2[best], y2[rest]) - np.maximum(y1[best], y1[rest]))
        either = areas[best] + areas[rest] - width * height
        shared = np.divide(width * height, either, out=np.zeros_like(width, dtype=float), where=either != 0)
        order = order[np.where(shared <= 0.5)[0] + 1]
    return np.array(picked)


@wild(detections)
def best_row_is_deleted(dets):
    left, best = np.copy(dets), []
    while left.shape[0] > 0:
        k = np.argmax(left[:, 4])
        row = np.copy(left[k])
        best.append(row)
        left = np.delete(left, k, axis=0)
        if left.shape[0] == 0:
            break
        left = left[overlap(row[:4], left[:, :4]) <= 0.45]
    return np.array(best)


def greedy(boxes, scores):
    order, picked = np.argsort(-scores, kind="stable"), []
    while order.size > 0:
        picked.append(order[0])
        shared = overlap(boxes[order[0]], boxes[order[1:]])
        order = order[np.where(shared <= 0.5)[0] + 1]
    return picked


def three_classes(random, share):
    return boxes_of(random), scores_of(random, share, classes=3)


@wild(three_classes)
def classes_with_something(boxes, scores):
    found = []
    for label in range(scores.shape[1]):
        confidence = scores[:, label]
        sure = confidence > 0.5
        if sure.sum() == 0:
            continue
        part, confidence = boxes[sure], confidence[sure]
        picked = greedy(part, confidence)
        if len(picked) > 0:
            labels = np.ones((len(picked), 1)) * label
            found.append(np.concatenate([part[picked], confidence[picked, None], labels], 1))
    if len(found) == 0:
        return None
    return np.concatenate(found, 0)


@wild(three_classes)
def label_of_each_row(boxes, scores):
    rows, labels = [], []
    for label in range(1, scores.shape[1]):
        sure = scores[:, label] > 0.5
        confidence = scores[sure, label]
        if confidence.shape[0] == 0:
            continue
        part = np.concatenate([boxes[sure], confidence[:, None]], axis=1)
        part = part[greedy(part[:, :4], confidence)]
        rows.append(part)
        labels.extend([label] * part.shape[0])
    if not rows:
        return np.array([]), np.array([]), np.array([])
    rows = np.concatenate(rows)
    return rows[:, :4], np.array(labels), rows[:, 4]


def six_classes(random, share):
    return boxes_of(random), scores_of(random, share, classes=6)


@wild(six_classes)
def boxes_of_each_class(boxes, scores):
    labels, best = scores.argmax(axis=1), scores.max(axis=1)
    kept = []
    for label in range(6):
        chosen = (labels == label) & (best > 0.5)
        if not chosen.any():
            continue
        part, confidence = boxes[chosen], best[chosen]
        picked = greedy(part, confidence)
        column = np.full((len(picked), 1), label, np.float32)
        kept.append(np.concatenate([part[picked], confidence[picked][:, None], column], axis=1))
    if not kept:
        return np.zeros((0, 6), np.float32)
    return np.concatenate(kept)


@wild(six_classes)
def places_of_each_class(boxes, scores):
    kept = []
    for label in range(6):
        places = np.where(scores[:, label] > 0.5)[0]
        if len(places) == 0:
            continue
        part = boxes[places]
        low = part[:, :2] - 1
        kept.append(np.hstack((low, part[:, 2:] - low)))
    return np.vstack(kept) if len(kept) > 0 else np.empty((0, 4), np.float32)


@wild(detections)
def covered_and_best_deleted_in_turn(dets):
    boxes, left, picked = dets[:, :4], dets[:, 4].argsort(kind="stable")[::-1], []
    while len(left) > 0:
        picked.append(left[0])
        covered = np.where(overlap(boxes[left[0]], boxes[left[1:]]) > 0.5)[0] + 1
        left = np.delete(left, covered)
        left = np.delete(left, 0)
    return np.array(picked, dtype=np.int32)


@wild(scored)
def cut_if_there_are_more(boxes, scores):
    sure = scores > 0.5
    rows = np.concatenate([boxes, scores[:, None]], axis=1)[sure]
    if not rows.shape[0]:
        return np.zeros((0, 5), np.float32)
    picked = np.array(greedy(rows[:, :4], rows[:, 4]))
    if picked.shape[0] > 4:
        picked = picked[:4]
    return rows[picked]


def equal_scores(random, share):
    return np.round(boxes_of(random) / 10) * 10 + [0, 0, 10, 10], np.round(scores_of(random, share), 1)


@wild(equal_scores)
def rounded_boxes_deleted_in_turn(boxes, scores):
    boxes, left, picked = boxes.astype(np.float32), scores.argsort(kind="stable")[::-1], []
    while left.size:
        best = left[0]
        picked.append(best)
        left = np.delete(left, np.where(overlap(boxes[best], boxes[left[1:]]) > 0.25)[0] + 1)
        left = np.delete(left, 0)
    return boxes[picked]


@wild(detections)
def overlaps_one_by_one(dets):
    boxes, order, picked = dets[:, :4], dets[:, 4].argsort(kind="stable"), []
    areas = np.prod(boxes[:, 2:] - boxes[:, :2], axis=1)
    while order.size > 0:
        best, rest = order[-1], order[:-1]
        picked.append(best)
        size = np.minimum(boxes[best, 2:], boxes[rest, 2:]) - np.maximum(boxes[best, :2], boxes[rest, :2])
        common = np.prod(np.maximum(0.0, size), axis=1)
        both = areas[best] + areas[rest]
        shared = np.zeros(len(both))
        for k in range(len(both)):
            if both[k] == 0:
                shared[k] = 0
            else:
                shared[k] = common[k] / (both[k] - common[k])
        order = order[np.where(shared < 0.5)]
    return dets[picked[:12]]
