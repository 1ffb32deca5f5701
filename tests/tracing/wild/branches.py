"""Branches on values, numbers of Python, and results that are not arrays."""

from __future__ import annotations

import math

import numpy as np

from .boxes import boxes_of, scored, scores_of
from .case import wild
from .keypoints import heatmap


def corners(random, share):
    return [(random.random((4, 2)) * 50).astype(np.float32)]


def logits(random, share):
    return [(random.standard_normal(10) * (share + 0.1)).astype(np.float32)]


def frames(random, share):
    return [random.standard_normal((12, 6)).astype(np.float32) + np.float32(share)]


@wild(corners)
def clockwise_from_the_first(points):
    start = np.argmin(points.sum(axis=1))
    points = points[[start, (start + 1) % 4, (start + 2) % 4, (start + 3) % 4]]
    if abs(points[0, 0] - points[1, 0]) > abs(points[0, 1] - points[1, 1]):
        return points
    return points[[0, 3, 2, 1]]


@wild(logits)
def probabilities_if_needed(x):
    if not np.isclose(x.sum(), 1.0, atol=0.01):
        e = np.exp(x - x.max())
        x = e / e.sum()
    return x


@wild(heatmap)
def scaled_to_one(heat):
    low, high = heat.min(), heat.max()
    if high - low > 1e-6:
        return (heat - low) / (high - low)
    return np.full(heat.shape, np.float32(0.5))


@wild(frames)
def large_values_divided(x):
    if x.max() > 1:
        x = x / np.float32(255)
    return x


@wild(frames)
def longer_side(x):
    width, height = x[:, 0].max() - x[:, 0].min(), x[:, 1].max() - x[:, 1].min()
    return max(width, height) * np.float32(1.5)


@wild(frames)
def loudest_or_silence(x):
    energy = np.square(x).sum(axis=1)
    best = np.argmax(energy)
    return x[best] if energy[best] > 6 else np.zeros(6, np.float32)


@wild(corners)
def angle_of_side(points):
    dx, dy = points[1] - points[0]
    angle = np.arctan2(dy, dx)
    if angle < 0:
        angle = angle + np.float32(np.pi)
    return np.degrees(angle)


@wild(corners)
def wrapped_angle(points):
    angle = np.arctan2(points[1, 1] - points[0, 1], points[1, 0] - points[0, 0])
    return angle - 2 * np.pi * np.floor((angle + np.pi) / (2 * np.pi))


@wild(heatmap)
def moved_by_neighbours(heat):
    place = np.argmax(heat)
    y, x = place // 8, place % 8
    offset = np.zeros(2, np.float32)
    if (x > 0) & (x < 7) & (y > 0) & (y < 7):
        offset = (
            np.stack([np.sign(heat[y, x + 1] - heat[y, x - 1]), np.sign(heat[y + 1, x] - heat[y - 1, x])]) * 0.25
        )
    return offset


@wild(heatmap)
def whole_pixel(heat):
    place = np.argmax(heat)
    return np.floor(place / 8 + 0.5).astype(np.int64)


@wild(frames)
def three_cases(x):
    mean = x.mean()
    if mean > 0.5:
        return x - mean
    elif mean > 0:
        return x * 2
    return -x


@wild(frames)
def both_or_neither(x):
    if x[0, 0] > 0 and x[0, 1] > 0:
        return x + 1
    if not (x[0, 0] > 0 or x[0, 1] > 0):
        return x - 1
    return x


@wild(lambda random, share: [random.standard_normal((2, 6)).astype(np.float32)])
def clipped_gradient(pair):
    norm = np.sqrt((pair * pair).sum())
    return pair * (1 / norm) if norm > 1 else pair


@wild(frames)
def early_stop_in_a_loop(x):
    total = np.zeros(6, np.float32)
    for row in x[:6]:
        if row[0] < -1:
            break
        total = total + row
    return total


@wild(frames)
def rows_skipped(x):
    total = np.zeros(6, np.float32)
    for row in x[:5]:
        if row.sum() < 0:
            continue
        total = total + row
    return total


@wild(scored)
def assert_of_shape(boxes, scores):
    assert boxes.shape[0] == scores.shape[0], "one score per box"
    return boxes * scores[:, None]


@wild(scored, "AssertionError")
def assert_of_values(boxes, scores):
    assert scores.max() <= 1, "scores are at most 1"
    return boxes


@wild(frames, "ValueError")
def raises_for_values(x):
    if np.isnan(x.sum()):
        raise ValueError("not a number")
    return x


@wild(frames)
def root_of_number(x):
    return x / np.float32(math.sqrt(x.shape[1]))


@wild(frames)
def root_of_value(x):
    return x / math.sqrt(x.max() * x.max())


@wild(frames)
def float_of_value(x):
    return x - float(x.mean())


@wild(heatmap)
def int_as_an_index(heat):
    x = int(np.argmax(heat[0]))
    return heat[:, x]


@wild(heatmap)
def crop_at_the_peak(heat):
    y = int(np.argmax(heat.max(axis=1)))
    padded = np.pad(heat, 1)
    return padded[y : y + 3]


@wild(frames)
def greedy_labels(x):
    best = x.argmax(axis=1)
    changed = np.concatenate([[True], best[1:] != best[:-1]])
    return best[changed & (best != 0)]


@wild(frames, "holds text, which a file cannot hold")
def text_of_labels(x):
    return "".join("abcdef"[i] for i in range(x.shape[1])) + str(x.shape)


@wild(frames)
def dict_of_results(x):
    return {"mean": x.mean(axis=0), "best": x.argmax(axis=1)}


@wild(frames)
def nested_helpers(x):
    def scale(y):
        return y * 2 if y.max() > 1 else y

    return scale(x[:6]) + scale(x[6:])


@wild(lambda random, share: [boxes_of(random, 6), boxes_of(random, 5)])
def pairwise_in_loops(a, b):
    result = np.zeros((6, 5), np.float32)
    for i in range(6):
        for j in range(5):
            size = np.minimum(a[i, 2:], b[j, 2:]) - np.maximum(a[i, :2], b[j, :2])
            result[i, j] = np.prod(np.maximum(size, 0))
    return result


@wild(lambda random, share: [scores_of(random, share, 12)])
def list_of_indices(scores):
    return [i for i in range(12) if scores[i] > 0.5]
