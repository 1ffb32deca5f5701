"""Trees of classes (YOLO9000): the children of a class, which are next to each other, share one softmax."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from anylayer import ops
from anylayer.layer import Array, need
from anylayer.network import Function

_MAX_LEVELS = 64


def softmax_of_groups(x: Array, parents: Sequence[int]) -> Array:
    """Return the softmax of each group of classes (..., classes). Source: pjreddie/darknet src/softmax_layer.c."""
    return _by_groups(x, parents, lambda part: ops.softmax(part, axis=-1))


def scores_of_best(x: Array, parents: Sequence[int], threshold: float) -> Array:
    """Return 1 for the class that a tree selects, and 0 for the others, from arguments (..., classes).

    The probability of a class is that of its softmax, times that of its parent. From the roots on, the best child
    is selected while the product of the probabilities on the way exceeds the threshold; the best root is always.
    Source: pjreddie/darknet src/tree.c hierarchy_predictions, hierarchy_top_prediction.
    """
    classes, depths = np.asarray(parents), np.zeros(len(parents), np.int64)
    for i, parent in enumerate(parents):
        depths[i] = 0 if parent < 0 else depths[parent] + 1
    need(depths.max() < _MAX_LEVELS, f"the tree has {depths.max() + 1} levels; the limit is {_MAX_LEVELS}")
    levels = [np.flatnonzero(depths == depth) for depth in range(depths.max() + 1)]
    rows = [np.searchsorted(before, classes[level]) for before, level in pairwise(levels)]
    in_file = np.argsort(np.concatenate(levels))
    shares = softmax_of_groups(x, parents)
    parts = [shares[..., levels[0]]]
    for level, row in zip(levels[1:], rows):
        parts.append(shares[..., level] * parts[-1][..., row])
    best = _by_groups(np.concatenate(parts, axis=-1)[..., in_file], parents, _is_first_maximum)
    product, on_way = parts[0], best[..., levels[0]]
    marks = [on_way * np.maximum((product > np.float32(threshold)).astype(x.dtype), np.float32(0.5))]
    for depth, (level, row) in enumerate(zip(levels[1:], rows), 2):
        product, on_way = parts[depth - 1] * product[..., row], best[..., level] * on_way[..., row]
        marks.append(on_way * (product > np.float32(threshold)).astype(x.dtype) * np.float32(depth))
    return _is_first_maximum(np.concatenate(marks, axis=-1)[..., in_file])


def _is_first_maximum(x: Array) -> Array:
    """Return 1 for the first maximum along the last axis, and 0 for other elements."""
    return (np.argmax(x, axis=-1)[..., None] == np.arange(x.shape[-1])).astype(x.dtype)


def _by_groups(x: Array, parents: Sequence[int], function: Function) -> Array:
    """Return what a function computes along the last axis of each group; groups of one size at once."""
    classes = np.asarray(parents)
    starts = np.flatnonzero(np.diff(classes, prepend=-2))
    need(
        parents[0] == -1 and len(np.unique(classes)) == len(starts),
        "the children of each class of the tree must be next to each other, and those without a parent first",
    )
    need(x.shape[-1] == len(parents), f"the tree has {len(parents)} classes, but there are {x.shape[-1]} values")
    sizes = np.diff(starts, append=len(parents))
    parts, order = [], []
    for size in np.unique(sizes):
        members = starts[sizes == size][:, None] + np.arange(size)
        parts.append(function(x[..., members]).reshape(*x.shape[:-1], members.size))
        order.append(members.ravel())
    return np.concatenate(parts, axis=-1)[..., np.argsort(np.concatenate(order))]
