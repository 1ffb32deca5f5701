"""Sample positions and interpolation weights of ONNX Resize-18, one axis at a time.

Everything here depends on sizes alone. It is computed in float32, as the engines compute it.
"""

from __future__ import annotations

import numpy as np

from anylayer.errors import need
from anylayer.network import Array

COORDINATES = (
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    "tf_crop_and_resize",
    "tf_half_pixel_for_nn",
)
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil")
_f = np.float32


def positions(
    old: int,
    new: int,
    coordinates: str,
    roi: tuple[float, float] | None = None,
    scale: float | None = None,
) -> Array:
    """Return where each of `new` output cells falls on an axis of `old` input cells: float32 (new,).

    The center of input cell 0 is at 0. `coordinates` is one of ONNX's coordinate_transformation_mode. `roi`
    (start, end), each from 0 to 1, is the part of the axis that "tf_crop_and_resize" takes. `scale` replaces new /
    old. "half_pixel_symmetric" equals "half_pixel", because the output size is given.
    """
    need(coordinates in COORDINATES, f"coordinates must be one of {', '.join(COORDINATES)}, got {coordinates!r}")
    point = np.arange(new, dtype=_f)
    ratio = _f(new) / _f(old) if scale is None else _f(scale)
    if coordinates == "asymmetric":
        return point / ratio
    if coordinates == "tf_half_pixel_for_nn":
        return (point + _f(0.5)) / ratio
    if coordinates == "align_corners":
        return point * _f(old - 1) / _f(new - 1) if new > 1 else point * _f(0)
    if coordinates == "tf_crop_and_resize":
        start, end = map(_f, roi or (0, 1))
        if new > 1:
            return start * _f(old - 1) + point * (end - start) * _f(old - 1) / _f(new - 1)
        return _f(0.5) * (start + end) * _f(old - 1) + point
    if coordinates == "pytorch_half_pixel" and new == 1:
        return point * _f(0)
    return (point + _f(0.5)) / ratio - _f(0.5)


def nearest_cells(at: Array, old: int, rule: str) -> Array:
    """Return the cell (int64) nearest to each position `at`, from 0 to old - 1.

    `rule` is one of ONNX's nearest_mode, which decides fractions and ties.
    """
    need(rule in NEAREST, f"nearest must be one of {', '.join(NEAREST)}, got {rule!r}")
    if rule == "floor":
        cell = np.floor(at)
    elif rule == "ceil":
        cell = np.ceil(at)
    elif rule == "round_prefer_floor":
        cell = np.ceil(at - _f(0.5))
    else:
        cell = np.floor(at + _f(0.5))
    return np.clip(cell, 0, old - 1).astype(np.int64)


def interpolation(
    at: Array, old: int, new: int, mode: str, cubic_a: float, exclude_outside: bool, antialias: bool
) -> tuple[Array, Array]:
    """Return the cells and weights of linear or cubic interpolation at positions `at`.

    Both arrays have the shape (new, taps); cells are int64, weights float32. A cell outside the axis is replaced
    by the first or last cell. With `exclude_outside`, its weight is 0 instead, and the other weights are scaled to
    sum to 1. With `antialias`, the kernel is stretched by old / new where the axis shrinks. `cubic_a` is the
    coefficient of the cubic kernel.
    """
    reach = 1 if mode == "linear" else 2
    stretch = min(new / old, 1.0) if antialias else 1.0
    half = int(np.ceil(reach / stretch))
    cells = np.floor(at).astype(np.int64)[:, None] + np.arange(1 - half, half + 1)
    away = np.abs(cells - at[:, None].astype(np.float64)) * stretch
    weights = np.maximum(1 - away, 0) if mode == "linear" else cubic_weights(away, cubic_a)
    outside = (cells < 0) | (cells > old - 1)
    if exclude_outside:
        weights = np.where(outside, 0, weights)
    if exclude_outside or antialias:
        total = weights.sum(axis=1, keepdims=True)
        weights = weights / np.where(total == 0, 1, total)
    return np.clip(cells, 0, old - 1), weights.astype(np.float32)


def cubic_weights(away: Array, a: float) -> Array:
    """Return the cubic convolution kernel with coefficient `a` at the distances `away`.

    Source: R. Keys, Cubic convolution interpolation for digital image processing, IEEE Transactions on Acoustics,
    Speech, and Signal Processing 29 (1981).
    """
    near = ((a + 2) * away - (a + 3)) * away * away + 1
    far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    return np.where(away <= 1, near, np.where(away < 2, far, 0))


def as_matrix(cells: Array, weights: Array, old: int) -> Array:
    """Return cells and weights (new, taps) as an interpolation matrix of shape (new, old), float32."""
    matrix = np.zeros((len(cells), old), np.float32)
    np.add.at(matrix, (np.arange(len(cells))[:, None], cells), weights)
    return matrix
