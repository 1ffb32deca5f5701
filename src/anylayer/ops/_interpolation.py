"""How ONNX Resize-18 finds the values of one axis: where a point falls, and which cells it mixes.

Everything here depends on sizes alone and is computed in float32, as engines do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.errors import need

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
) -> Any:
    """Return the position of each of `new` points on an axis of `old` cells (float32, cell 0 is at 0).

    `roi` is the part of the axis, from 0 to 1, that "tf_crop_and_resize" takes. With sizes given,
    "half_pixel_symmetric" is "half_pixel". `scale` is used in place of new / old.
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


def picks(at: Any, old: int, rule: str) -> Any:
    """The cell (int64) nearest to each position, by one of ONNX's rules for ties."""
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


def mixing(
    at: Any, old: int, new: int, mode: str, cubic_a: float, exclude_outside: bool, antialias: bool
) -> tuple[Any, Any]:
    """The cells (new, taps) each point mixes and their weights (float32), for "linear" and "cubic".

    Cells outside the axis are its first or last; with `exclude_outside` they weigh nothing instead, and the
    others sum to 1. `antialias` stretches the filter where the axis shrinks.
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


def cubic_weights(away: Any, a: float) -> Any:
    """The cubic kernel at distances `away` (R. Keys, Cubic convolution interpolation, IEEE ASSP 29, 1981)."""
    near = ((a + 2) * away - (a + 3)) * away * away + 1
    far = ((a * away - 5 * a) * away + 8 * a) * away - 4 * a
    return np.where(away <= 1, near, np.where(away < 2, far, 0))


def as_matrix(cells: Any, weights: Any, old: int) -> Any:
    """The matrix (new, old) that mixes an axis."""
    matrix = np.zeros((len(cells), old), np.float32)
    np.add.at(matrix, (np.arange(len(cells))[:, None], cells), weights)
    return matrix
