"""Keypoints, masks and small matrices."""

from __future__ import annotations

import numpy as np

from .boxes import scores_of
from .case import wild


def heatmap(random, share):
    return [scores_of(random, share, 64).reshape(8, 8)]


def affine(random, share):
    return [(random.standard_normal((6, 3, 3)) * 0.3 + 2 * np.eye(3)).astype(np.float32)]


def labels(random, share):
    return random.integers(-1, 4, 60), random.integers(0, 4, 60)


@wild(heatmap)
def peaks(heat):
    ys, xs = np.where(heat > 0.5)
    return np.stack([xs, ys], axis=1), heat[ys, xs]


@wild(heatmap)
def peak_points_in_pixels(heat):
    points = np.argwhere(heat > 0.5).astype(np.float32)
    return points[:, ::-1] * 4 + 2


@wild(heatmap)
def strongest_point(heat):
    place = np.argmax(heat)
    return np.array([place % heat.shape[1], place // heat.shape[1]]), heat.reshape(-1)[place]


@wild(heatmap)
def local_maxima(heat):
    padded = np.pad(heat, 1)
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3)).max((2, 3))
    ys, xs = np.nonzero((heat == windows) & (heat > 0.5))
    return xs, ys


@wild(heatmap)
def larger_than_three_neighbours(heat):
    left, above = np.zeros_like(heat), np.zeros_like(heat)
    left[:, 1:], above[1:] = heat[:, :-1], heat[:-1]
    below = np.concatenate([heat[1:], np.zeros_like(heat[:1])])
    high = np.logical_and.reduce((heat >= left, heat >= above, heat >= below, heat > 0.5))
    rows, columns = np.nonzero(high)
    return np.stack([columns, rows, heat[rows, columns]], axis=1)


@wild(affine)
def inverse_of_each(matrices):
    return np.linalg.inv(matrices), np.linalg.det(matrices)


@wild(affine)
def solved_points(matrices):
    return np.linalg.solve(matrices, np.ones((6, 3, 1), np.float32))


@wild(labels)
def confusion(truth, guess):
    known = (truth >= 0) & (truth < 4)
    return np.bincount(4 * truth[known] + guess[known], minlength=16).reshape(4, 4)


@wild(labels)
def classes_in_use(truth, guess):
    classes, counts = np.unique(truth, return_counts=True)
    return classes, counts


@wild(labels)
def collapsed_path(truth, guess):
    best = guess[np.insert(guess[1:] != guess[:-1], 0, True)]
    return best[best != 0]


@wild(heatmap)
def masked_mean(heat):
    mask = heat > 0.5
    return heat[mask].sum() / np.maximum(mask.sum(), 1)


@wild(heatmap)
def top_share(heat):
    k = np.count_nonzero(heat > 0.5)
    return np.sort(heat.reshape(-1))[::-1][:k]


BONES = [(0, 1), (1, 2), (2, 3), (0, 4), (4, 5), (5, 6), (0, 7), (7, 8), (8, 9), (4, 7), (7, 10), (10, 11)]


def parts(random, share):
    scores = np.where(random.uniform(size=(6, 6, 12)) < share, 0.8, 0.0)
    return [scores.astype(np.float32), random.uniform(-6, 6, (6, 6, 12, 2)).astype(np.float32)]


@wild(parts)
def walk_along_the_bones(scores, steps):
    found, places = np.zeros(12), np.zeros((12, 2))
    found[0], places[0] = scores[2, 2, 0], (20.0, 24.0)
    for bone in range(len(BONES)):
        start, end = BONES[bone]
        if found[start] > 0.0 and found[end] == 0.0:
            y, x = np.clip(np.round(places[start] / 8), 0, 5).astype(np.int32)
            place = places[start] + steps[y, x, bone]
            y, x = np.clip(np.round(place / 8), 0, 5).astype(np.int32)
            found[end], places[end] = scores[y, x, end], place
    return found, places


@wild(heatmap)
def places_and_whether_they_are_seen(heat):
    points = []
    for part in heat.reshape(4, 4, 4):
        y, x = np.unravel_index(np.argmax(part), part.shape)
        points.append([x / part.shape[1], y / part.shape[0], 1.0 if part.max() > 0.5 else 0.0])
    return np.array(points, dtype=np.float32)


@wild(lambda random, share: [random.random((17, 3)).astype(np.float32), random.random((17, 3)).astype(np.float32)])
def mean_distance_of_seen_points(a, b):
    seen = (a[:, 2] > 0.3) & (b[:, 2] > 0.3)
    if np.sum(seen) == 0:
        return np.float32(0)
    return np.mean(np.linalg.norm(a[seen][:, :2] - b[seen][:, :2], axis=1))
