"""References for overlaps and NMS: Caffe's sources, computed one box at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anylayer.network import Array

F = np.float32
Overlap = Callable[[Any, Any], Any]


def jaccard(a: Array, b: Array, extra: float = 0.0) -> Any:
    """Return the intersection over union of two boxes x1 y1 x2 y2 in float32 (bbox_util.cpp JaccardOverlap)."""
    if b[0] > a[2] or b[2] < a[0] or b[1] > a[3] or b[3] < a[1]:
        return F(0)
    sides = [F(min(a[i + 2], b[i + 2]) - max(a[i], b[i])) + F(extra) for i in (0, 1)]
    if not (sides[0] > 0 and sides[1] > 0):
        return F(0)
    common = F(sides[0] * sides[1])
    return F(common / F(F(area(a, extra) + area(b, extra)) - common))


def area(a: Array, extra: float = 0.0) -> Any:
    """Return the area of a box, 0 when its end lies before its start (BBoxSize)."""
    if a[2] < a[0] or a[3] < a[1]:
        return F(0)
    return F((a[2] - a[0] + F(extra)) * (a[3] - a[1] + F(extra)))


def greedy(
    boxes: Sequence[Array], order: Sequence[int], drops: Callable[[Any], bool], extra: float = 0.0
) -> list[int]:
    """Return the indices in `order` whose overlap with no kept box satisfies `drops`."""
    kept: list[int] = []
    for i in order:
        if not any(drops(jaccard(boxes[i], boxes[j], extra)) for j in kept):
            kept.append(i)
    return kept


def adaptive(boxes: Sequence[Array], order: Sequence[int], threshold: float, eta: float) -> list[int]:
    """Return the indices in `order` that an NMS with decreasing threshold keeps (bbox_util.cpp ApplyNMSFast)."""
    kept: list[int] = []
    now = F(threshold)
    for i in order:
        if all(jaccard(boxes[i], boxes[j]) <= now for j in kept):
            kept.append(i)
            if eta < 1 and now > 0.5:
                now = F(now * F(eta))
    return kept


def random_boxes(rng: np.random.Generator, count: int, low: float = 0.0, high: float = 1.0) -> Array:
    """Return boxes x1 y1 x2 y2 (count, 4), many of which overlap."""
    centre, half = rng.uniform(0.2, 0.8, (count, 2)), rng.uniform(0.05, 0.25, (count, 2))
    boxes = np.concatenate([centre - half, centre + half], axis=1)
    return (low + boxes * (high - low)).astype(F)
