"""Convolution of a map at displaced points (arXiv 1703.06211, 1811.11168)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from anylayer import ops
from anylayer.layer import Array, need, need_shape
from anylayer.layer.arguments import Pairs, window_counts
from anylayer.layers._resampling import plane_of


def deformable_convolution(
    x: Array, offset: Array, w: Array, b: Array | None, mask: Array | None, *, strides: Sequence[int],
    dilations: Sequence[int], pads: Pairs, group: int, offset_group: int, border: bool = False,
) -> Array:  # fmt: skip
    """Return the convolution of `x` (N, C, H, W) with `w` (M, C / group, h, w), sampled at displaced points.

    offset: (N, 2 * offset_group * taps, H', W'), down and across for each tap. mask: factors of the samples, (N,
    offset_group * taps, H', W'). Zeros around the map are interpolated. With `border`, a point outside the map is
    0, and one between the last cell's center and the border is the last cell.
    """
    (h, width), (n, c), kernel = plane_of(x), x.shape[:2], w.shape[2:]
    outputs, taps, one = w.shape[0], math.prod(kernel), x.dtype.type(1)
    fits = min(group, offset_group) >= 1 and c % group == c % offset_group == outputs % group == 0
    rule = f"group={group} and offset_group={offset_group} must divide {c} channels, and group {outputs} filters"
    need(fits, rule)
    counts = window_counts((h, width), kernel, strides, pads, dilations)
    need_shape(offset, (n, 2 * offset_group * taps, *counts), "offset")
    need_shape(w, (outputs, c // group, "h", "w"), "weight")
    moves, points = offset.reshape(n * offset_group, taps, 2, *counts), []
    for i in (0, 1):
        tap = np.indices(kernel)[i].reshape(taps, 1, 1) * dilations[i] - pads[i][0]
        points.append(moves[:, :, i] + (tap + np.indices(counts)[i] * strides[i]).astype(x.dtype))
    two = one + one
    grid = np.stack([(at * two + one) / s - one for at, s in zip(points[::-1], (width, h))], axis=-1)
    samples = ops.grid_sample(
        x.reshape(n * offset_group, c // offset_group, h, width),
        grid.reshape(n * offset_group, taps * counts[0], counts[1], 2), padding="border" if border else "zeros",
    )  # fmt: skip
    if border:
        inside = [(at >= 0) & (at < s) for at, s in zip(points, (h, width))]
        mask = (inside[0] & inside[1]).astype(x.dtype).reshape(n, offset_group * taps, *counts)
    rows = samples.reshape(n, offset_group, c // offset_group, taps, *counts)
    if mask is not None:
        need_shape(mask, (n, offset_group * taps, *counts), "mask")
        rows = rows * mask.reshape(n, offset_group, 1, taps, *counts)
    y = w.reshape(group, outputs // group, -1) @ rows.reshape(n, group, c // group * taps, math.prod(counts))
    result: Array = y.reshape(n, outputs, *counts)
    return result if b is None else result + b.reshape(-1, 1, 1)
