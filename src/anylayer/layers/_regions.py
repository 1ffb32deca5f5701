"""Pooling of regions whose bins have channels of their own (R-FCN, arXiv 1605.06409; arXiv 1703.06211)."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Array, need, need_shape
from anylayer.layer.arguments import need_sizes
from anylayer.layers._arrays import round_half_away

_half, _one, _smallest = np.float32(0.5), np.float32(1), np.float32(0.1)


def groups_of_bins(x: Array, output_dim: int, group: int, bins: int) -> Array:
    """Return the channels of each bin of `x` (N, output_dim * group^2, H, W): (N, bins, bins, output_dim, H, W).

    Bin (i, j) has the channels (c * group + i * group // bins) * group + j * group // bins.
    """
    need(len(x.shape) == 4, f"needs an input (N, C, H, W), got shape {tuple(x.shape)}")
    (n, channels, h, w), c, g = x.shape, output_dim, group
    need(min(c, g, bins) >= 1, f"needs positive sizes, got output_dim={c}, group_size={g} and {bins} bins")
    need(channels == c * g * g, f"output_dim={c} with group_size={g} needs {c * g * g} channels, got {channels}")
    maps = x.reshape(n, c, g, g, h, w).transpose(0, 2, 3, 1, 4, 5)
    of_bin = np.arange(bins) * g // bins
    return maps if bins == g else maps[:, of_bin][:, :, of_bin]


def _ends(rois: Array, scale: float, shift: float = 0.0) -> tuple[Array, Array]:
    """Return the starts and the sizes of regions (R, 5), (R, 2) each, columns first.

    Corners are rounded, halves away from zero, before they are scaled, the end plus 1.
    """
    start = round_half_away(rois[:, 1:3]) * np.float32(scale) - np.float32(shift)
    end = (round_half_away(rois[:, 3:5]) + _one) * np.float32(scale) - np.float32(shift)
    return start, np.maximum(end - start, _smallest)


def mean_of_sensitive_bins(
    x: Array, rois: Array, scale: float, output_dim: int, group: int, bins: int | None = None
) -> Array:
    """Return the mean of each bin of each region (R, 5): (R, output_dim, bins, bins); by default, group bins.

    Bins may overlap. Those without cells give 0.
    """
    p, (n, _, h, w), c, count = bins or group, x.shape, output_dim, rois.shape[0]
    maps = groups_of_bins(x, c, group, p)
    start, size = _ends(rois, scale)

    def cells(axis: int, length: int) -> Array:
        """Return (p, length, R): 1 for each row or column of the map that lies in a bin, else 0."""
        place, at = np.arange(p + 1, dtype=np.float32)[:, None], np.arange(length, dtype=np.float32)[:, None]
        limits = place * (size[:, axis] / np.float32(p)) + start[:, axis]
        first, last = np.floor(limits[:-1])[:, None], np.ceil(limits[1:])[:, None]
        return ((at >= first) & (at < last)).astype(np.float32)

    in_columns, in_rows = cells(0, w), cells(1, h)
    lines = (maps.reshape(n, p, p, c * h, w) @ in_columns).reshape(n, p, p, c, h, count)
    sums = (lines * in_rows[:, None, None]).sum(axis=4)
    image = np.trunc(rois[:, 0])
    in_image = (image == np.arange(n, dtype=np.float32)[:, None]).astype(np.float32)
    total = (sums * in_image[:, None, None, None]).sum(axis=0)
    area = in_rows.sum(axis=1)[:, None] * in_columns.sum(axis=1)  # (p, p, R)
    mean: Array = total / np.maximum(area, _one)[:, :, None]
    return mean.transpose(3, 2, 0, 1)


def mean_of_moved_bins(
    x: Array, rois: Array, moves: Array | None, *, spatial_scale: float, output_dim: int, group_size: int,
    pooled_size: int, part_size: int, sample_per_part: int, trans_std: float,
) -> Array:  # fmt: skip
    """Return the mean of the interpolated samples in each bin: (R, output_dim, pooled_size, pooled_size).

    moves: (R, 2 * classes, part_size, part_size), across and down for each class, times trans_std relative to the
    size of the region. Samples more than half a cell outside of the map, or of no image, are left out.
    """
    p, s, c, (n, _, h, w), count = pooled_size, sample_per_part, output_dim, x.shape, rois.shape[0]
    maps = groups_of_bins(x, c, group_size, p)
    need(s >= 1, f"sample_per_part must be at least 1, got {s}")
    classes, parts = 1, part_size or p
    if moves is None:
        moves = np.zeros((1, 2, parts, parts), np.float32)
    else:
        classes = moves.shape[1] // 2
        need_shape(moves, (count, 2 * classes, parts, parts), "trans")
        need(classes >= 1 and c % classes == 0, f"output_dim={c} is not a multiple of {classes} classes")
    need_sizes((count, classes, p * s, p * s))
    start, size = _ends(rois, spatial_scale, 0.5)
    of_bin = np.arange(p) * parts // p
    shifts = moves[:, :, of_bin][:, :, :, of_bin].reshape(-1, classes, 2, p, p) * np.float32(trans_std)
    points = []  # columns and rows of the samples: (R, classes, p, p, s, s)
    for i, shape in ((0, (1, p, 1, s)), (1, (p, 1, s, 1))):
        extent = size[:, i].reshape(count, 1, 1, 1)
        origin = start[:, i].reshape(count, 1, 1, 1) + shifts[:, :, i] * extent
        place = np.arange(p, dtype=np.float32)[:, None] + np.arange(s, dtype=np.float32) / np.float32(s)
        points.append(origin[..., None, None] + place.reshape(shape) * (extent[..., None, None] / np.float32(p)))
    column, row = points
    image = np.trunc(rois[:, 0]).reshape(count, 1, 1, 1, 1, 1)
    inside = (
        (image >= 0)
        & (image < n)
        & (column >= -_half)
        & (column <= w - _half)
        & (row >= -_half)
        & (row <= h - _half)
    )
    column, row = np.clip(column, 0, w - _one), np.clip(row, 0, h - _one)
    image = np.clip(image, 0, n - 1).astype(np.int64)
    cells = maps.transpose(0, 1, 2, 4, 5, 3).reshape(n * p * p * h * w, c)  # the channels of each cell of each bin
    bin_ = (image * p + np.arange(p).reshape(p, 1, 1, 1)) * p + np.arange(p).reshape(p, 1, 1)
    sums = np.zeros((*inside.shape, c), np.float32)
    for corner in np.ndindex(2, 2):
        weight, index = np.where(inside, _one, _one - _one), bin_
        for at, d, limit in zip((row, column), corner, (h, w)):
            low = np.floor(at)
            weight = weight * (at - low if d else low + _one - at)
            index = index * limit + np.minimum(low + np.float32(d), limit - _one).astype(np.int64)
        sums = sums + ops.gather(cells, index) * weight[..., None]
    number = np.maximum(inside.astype(np.float32).sum(axis=(-1, -2)), _one)
    mean = sums.sum(axis=(-2, -3)) / number[..., None]  # (R, classes, p, p, c)
    each = c // classes
    chosen = [mean[:, k, :, :, k * each : (k + 1) * each] for k in range(classes)]
    return np.concatenate(chosen, axis=-1).transpose(0, 3, 1, 2)
