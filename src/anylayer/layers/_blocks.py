"""Blocks of pixels that move into the batch, and back, as TensorFlow and OpenVINO define it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.layer import need
from anylayer.network import Array

Pairs = Sequence[tuple[int, int]]


def space_to_batch(x: Array, block: Sequence[int], pads: Pairs) -> Array:
    """Return `x`, padded with zeros, with the pixels at the same place of their blocks as one batch.

    `block` and `pads` have one entry per axis from axis 1 on; further axes stay. Batch k * N + n of the result
    holds the pixels at place k of the blocks of sample n. Raises LayerError for a block that does not divide an
    axis.
    """
    m = _axes(x, block)
    x = np.pad(x, [(0, 0), *pads, *[(0, 0)] * (len(x.shape) - m - 1)])
    n, sizes, rest = x.shape[0], x.shape[1 : m + 1], x.shape[m + 1 :]
    for axis, (s, b) in enumerate(zip(sizes, block), 1):
        need(s % b == 0, f"block_shape {b} does not divide axis {axis} of size {s} after padding")
    y = x.reshape(n, *(v for s, b in zip(sizes, block) for v in (s // b, b)), *rest)
    y = y.transpose(*range(2, 2 * m + 1, 2), 0, *range(1, 2 * m, 2), *range(2 * m + 1, y.ndim))
    return y.reshape(n * math.prod(block), *(s // b for s, b in zip(sizes, block)), *rest)


def batch_to_space(x: Array, block: Sequence[int], crops: Pairs) -> Any:
    """Return `x` with each group of batches as blocks of pixels, cropped: the inverse of space_to_batch.

    Raises LayerError for a block that does not divide the batch size, and for crops that exceed an axis.
    """
    m, count = _axes(x, block), math.prod(block)
    need(x.shape[0] % count == 0, f"a block of {count} pixels does not divide the batch size {x.shape[0]}")
    n, sizes, rest = x.shape[0] // count, x.shape[1 : m + 1], x.shape[m + 1 :]
    y = x.reshape(*block, n, *sizes, *rest)
    y = y.transpose(m, *(v for i in range(m) for v in (m + 1 + i, i)), *range(2 * m + 1, y.ndim))
    y = y.reshape(n, *(s * b for s, b in zip(sizes, block)), *rest)
    for axis, (a, b) in enumerate(crops, 1):
        need(a + b <= y.shape[axis], f"crops {a} + {b} exceed the size {y.shape[axis]} of axis {axis}")
    return y[(slice(None), *(slice(a, s - b) for (a, b), s in zip(crops, y.shape[1:])))]


def _axes(x: Array, block: Sequence[int]) -> int:
    m = len(block)
    need(
        m < len(x.shape) and min(block, default=1) >= 1, f"block_shape {block} does not fit shape {tuple(x.shape)}"
    )
    return m
