"""Loops in plain Python that decide by the data of each step: flags, decoders, peaks, segments."""

from __future__ import annotations

from typing import Any

import numpy as np

from .case import wild

ROWS = 14


def ranked(random: np.random.Generator, share: float) -> list[Any]:
    """Boxes (ROWS, 4) and scores (ROWS, 2), of which a share is above 0.5."""
    low = random.uniform(0, 30, (ROWS, 2))
    boxes = np.concatenate([low, low + random.uniform(5, 20, (ROWS, 2))], axis=1)
    high = random.uniform(size=(ROWS, 2)) < share
    scores = np.where(high, random.uniform(0.55, 0.95, (ROWS, 2)), random.uniform(0.05, 0.45, (ROWS, 2)))
    return [boxes.astype(np.float32), scores.astype(np.float32)]


def sequence(random: np.random.Generator, share: float) -> list[Any]:
    """Probabilities (24, 6) over time. A share of the steps does not have label 0 as the largest."""
    p = random.uniform(0, 0.6, (24, 6))
    p[:, 0] = np.where(random.uniform(size=24) < share, 0.0, 0.9)
    return [p.astype(np.float32)]


def distances(random: np.random.Generator, share: float) -> Any:
    """Distances (6, 5), of which about a share are at most 0.5."""
    return np.where(random.uniform(size=(6, 5)) < share, 0.2, 0.9).astype(np.float32)


def shared_area(a: Any, b: Any) -> Any:
    left, top = max(a[0], b[0]), max(a[1], b[1])
    right, bottom = min(a[2], b[2]), min(a[3], b[3])
    if right <= left or bottom <= top:
        return np.float32(0.0)
    both = (right - left) * (bottom - top)
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


@wild(ranked)
def flagged_boxes(boxes, scores):
    order = np.argsort(-scores[:, 0], kind="stable")
    removed = np.zeros(ROWS, dtype=bool)
    kept = []
    for i in range(ROWS):
        a = order[i]
        if removed[a]:
            continue
        if scores[a, 0] < 0.5:
            break
        kept.append(a)
        for j in range(i + 1, ROWS):
            b = order[j]
            if shared_area(boxes[a], boxes[b]) > 0.3:
                removed[b] = True
    return boxes[kept], np.array(kept, dtype=np.int64)


@wild(ranked)
def zeroed_scores_per_class(boxes, scores):
    scores = scores.copy()
    for c in range(2):
        order = np.argsort(-scores[:, c], kind="stable")
        for i in range(len(order)):
            if scores[order[i], c] == 0:
                continue
            for j in range(i + 1, len(order)):
                if shared_area(boxes[order[i]], boxes[order[j]]) >= 0.3:
                    scores[order[j], c] = 0
    return scores


@wild(ranked)
def suppressed_in_a_python_list(boxes, scores):
    order = np.argsort(-scores[:, 1], kind="stable")
    suppressed = [False] * ROWS
    picked = []
    for i in range(ROWS):
        if suppressed[i]:
            continue
        picked.append(order[i])
        for j in range(i + 1, ROWS):
            if not suppressed[j] and shared_area(boxes[order[i]], boxes[order[j]]) > 0.3:
                suppressed[j] = True
    return np.array(picked, dtype=np.int64)


@wild(ranked)
def best_one_by_one(boxes, scores):
    left = scores[:, 0].copy()
    found = []
    while True:
        best = left.argmax()
        if left[best] < 0.5:
            break
        found.append(best)
        for k in range(ROWS):
            if shared_area(boxes[best], boxes[k]) > 0.2:
                left[k] = 0.0
        left[best] = 0.0
    return np.array(found, dtype=np.int64)


@wild(ranked)
def softened_scores(boxes, scores):
    rows = np.concatenate([boxes, scores[:, :1]], axis=1)
    for i in range(ROWS):
        top, place = rows[i, 4], i
        for j in range(i + 1, ROWS):
            if rows[j, 4] > top:
                top, place = rows[j, 4], j
        first = rows[i].copy()
        rows[i] = rows[place]
        rows[place] = first
        for j in range(i + 1, ROWS):
            shared = shared_area(rows[i], rows[j])
            if shared > 0.3:
                rows[j, 4] *= 1 - shared
    return rows[rows[:, 4] > 0.3]


@wild(ranked)
def ends_with_the_low_ones(boxes, scores):
    rows = np.concatenate([boxes, scores[:, :1]], axis=1)
    n, k = ROWS, 0
    while k < n:
        if rows[k, 4] < 0.5:
            rows[k] = rows[n - 1]
            n -= 1
            k -= 1
        k += 1
    return rows[:n]


@wild(sequence)
def collapsed_labels(p):
    text, before = [], 0
    for t in range(p.shape[0]):
        label = int(np.argmax(p[t]))
        if label != 0 and label != before:
            text.append(label)
        before = label
    return np.array(text, dtype=np.int64)


@wild(sequence)
def labels_that_change(p):
    last, labels = -1, []
    for label in p.argmax(axis=1):
        if label == 0:
            last = -1
            continue
        if label == last:
            continue
        labels.append(label)
        last = label
    return np.array(labels, dtype=np.int64)


@wild(lambda random, share: [random.permutation(6)[:4], random.permutation(5)[:4], distances(random, share)])
def matches_within_a_distance(rows, columns, distance):
    unmatched_rows = [i for i in range(6) if i not in rows]
    unmatched_columns = []
    for j in range(5):
        if j not in columns:
            unmatched_columns.append(j)
    pairs = []
    for i, j in zip(rows, columns):
        if distance[i, j] > 0.5:
            unmatched_rows.append(i)
            unmatched_columns.append(j)
        else:
            pairs.append(np.array([[i, j]]))
    pairs = np.empty((0, 2), dtype=int) if len(pairs) == 0 else np.concatenate(pairs, axis=0)
    return pairs, np.array(unmatched_rows, dtype=np.int64), np.array(unmatched_columns, dtype=np.int64)


@wild(sequence)
def labels_with_scores(p):
    labels, confidence, last = [], [], None
    for row in p:
        k = row.argmax()
        if k == 0:
            last = k
            continue
        if last is None or k != last:
            labels.append(k)
            confidence.append(row[k])
        last = k
    return np.array(labels, dtype=np.int64), np.array(confidence, dtype=np.float32)


@wild(sequence)
def voiced_segments(p):
    voiced = p[:, 0] < 0.5
    parts, begin = [], -1
    for t in range(len(voiced)):
        if voiced[t]:
            if begin < 0:
                begin = t
        elif begin >= 0:
            parts.append([begin, t])
            begin = -1
    if begin >= 0:
        parts.append([begin, len(voiced)])
    return np.array(parts, dtype=np.int64).reshape(-1, 2)


@wild(sequence)
def separated_peaks(p):
    x, peaks, last = p[:, 1], [], -10
    for t in range(1, len(x) - 1):
        if x[t] > x[t - 1] and x[t] >= x[t + 1] and x[t] > 0.3 and t - last >= 3:
            peaks.append(t)
            last = t
    return np.array(peaks, dtype=np.int64)


@wild(sequence)
def filtered_with_attack_and_release(p):
    y, level = np.zeros(len(p), np.float32), p[0, 0]
    for t in range(len(p)):
        v = p[t, 0]
        if v > level:
            level = level + (v - level) * np.float32(0.5)
        else:
            level = level + (v - level) * np.float32(0.05)
        y[t] = level
    return y
