"""Cumulative sums, as TensorFlow and OpenVINO define them."""

from __future__ import annotations

import numpy as np

from anylayer.network import Array


def cumulative_sum(x: Array, axis: int, exclusive: bool, reverse: bool) -> Array:
    """Return the cumulative sum along an axis, with the shape and dtype of `x`.

    exclusive: element i is the sum of the elements before i. reverse: the sum starts at the end of the axis.
    """
    y = np.flip(x, axis) if reverse else x
    if exclusive:
        padding = [(0, 0)] * len(x.shape)
        padding[axis] = (1, 0)
        y = np.pad(y, padding)[(slice(None),) * axis + (slice(0, x.shape[axis]),)]
    total: Array = np.cumsum(y, axis=axis, dtype=x.dtype)
    return np.flip(total, axis) if reverse else total
