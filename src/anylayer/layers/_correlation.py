"""Correlations of the patches of two maps."""

from __future__ import annotations

import numpy as np

from anylayer.errors import need, need_shape
from anylayer.layers._resampling import need_plane, plane_of
from anylayer.network import Array


def correlate(
    a: Array, b: Array, *, kernel_size: int, max_displacement: int, stride1: int, stride2: int, pad_size: int,
    is_multiply: bool,
) -> Array:  # fmt: skip
    """Return the correlation of each patch of `a` (N, C, H, W) with the patches of `b` around its place.

    The result is (N, (2 r + 1)^2, H', W') with r = max_displacement / stride2. Channel (dy + r) * (2 r + 1) + (dx
    + r) is the mean over the patch of the products, or of the absolute differences unless `is_multiply`, with the
    patch dy * stride2 rows below and dx * stride2 columns to the right. Patches of `a` start at every stride1-th
    cell. The maps are padded with zeros.
    """
    far, pad, radius = max_displacement, pad_size, max_displacement // stride2
    at = places(a, b, (far, far), (pad, pad), kernel_size, stride1)
    around = ((0, 0), (0, 0), (pad, pad), (pad, pad))
    steps = np.arange(-radius, radius + 1) * stride2
    return compare(np.pad(a, around), np.pad(b, around), at, steps, steps, kernel_size, is_multiply)


def places(
    a: Array, b: Array, border: tuple[int, int], pads: tuple[int, int], kernel: int, stride: int
) -> list[Array]:
    """Return the padded rows and columns at which the patches of `a` start.

    `border` is the number of cells before and after the patches of a map in each direction, besides the kernel.
    """
    need(kernel % 2 == 1, f"kernel_size must be odd, got {kernel}")
    plane_of(a)
    need_shape(b, tuple(a.shape), "input 1", about=", as input 0")
    starts = []
    for size, pad, lost in zip(a.shape[2:], pads, border):
        room = size + 2 * pad - 2 * lost - (kernel - 1)
        count = -(-room // stride)
        need(
            count >= 1,
            f"kernel_size={kernel} and max_displacement={max(border)} do not fit a map of "
            f"{a.shape[2]} x {a.shape[3]} with pad={max(pads)}",
        )
        starts.append(np.arange(count) * stride + lost)
    need_plane(len(starts[0]), len(starts[1]))
    return starts


def compare(a: Array, b: Array, at: list[Array], down: Array, across: Array, kernel: int, multiply: bool) -> Array:
    """Return the correlation of padded maps: (N, len(down) * len(across), rows, columns).

    `at` are the rows and columns at which the patches of `a` start. Those of `b` start `down` rows and `across`
    columns further. Channels run over the displacements, row by row.
    """
    rows, columns = at
    terms = kernel**2 * a.shape[1]
    a, b = _taps(a, kernel), _taps(b, kernel)
    left = a[:, :, rows][:, :, :, columns].transpose(0, 2, 3, 1)[:, :, None]  # (N, rows, 1, columns, C)
    lines = b[:, :, rows[:, None] + down].transpose(0, 2, 3, 1, 4)  # (N, rows, down, C, W)
    reached = columns[:, None] + across  # (columns, across)
    if multiply:
        every = (left @ lines).reshape(*lines.shape[:3], len(columns) * lines.shape[4])
        picked = every[..., np.arange(len(columns))[:, None] * lines.shape[4] + reached]
    else:
        picked = _distances(left, lines, reached)
    means = picked.transpose(0, 2, 4, 1, 3) / np.float32(terms)
    return means.reshape(a.shape[0], len(down) * len(across), len(rows), len(columns))


def _taps(x: Array, k: int) -> Array:
    """Return the cells of each kernel as channels: (N, C * k * k, H - k + 1, W - k + 1)."""
    h, w = x.shape[2:]
    if k == 1:
        return x
    shifted = [x[:, :, j : h - k + 1 + j, i : w - k + 1 + i] for j in range(k) for i in range(k)]
    return np.concatenate(shifted, axis=1)


def _distances(left: Array, lines: Array, reached: Array) -> Array:
    """Return the sums over C of |a - b|: (N, rows, down, columns, across)."""
    left = left.transpose(0, 1, 2, 4, 3)  # (N, rows, 1, C, columns)
    sums = [np.abs(left - lines[..., reached[:, k]]).sum(axis=3) for k in range(reached.shape[1])]
    return np.stack(sums, axis=-1)
