"""Resizing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from anylayer.errors import need
from anylayer.ops._interpolation import COORDINATES, mixing, picks, positions
from anylayer.ops._operator import operator
from anylayer.ops._spatial import per_axis


@operator
def resize(
    x: Any,
    size: Sequence[int] | int,
    *,
    axes: Sequence[int] | None = None,
    mode: Literal["nearest", "linear", "cubic"] = "linear",
    coordinates: str = "half_pixel",
    nearest: str = "floor",
    cubic_a: float = -0.75,
    exclude_outside: bool = False,
    antialias: bool = False,
    roi: Sequence[float] | None = None,
    extrapolation: float = 0.0,
) -> Any:
    """Resize `axes` (default: the last ones) of `x` to `size`, axis by axis (ONNX Resize-18).

    `coordinates` maps a point back onto the axis: with s = new / old,
    half_pixel (i + .5) / s - .5 · pytorch_half_pixel the same, 0 where new is 1 · asymmetric i / s ·
    align_corners i * (old - 1) / (new - 1) · half_pixel_symmetric = half_pixel when a size is given ·
    tf_crop_and_resize: of the part `roi` (starts, then ends, 0 to 1), `extrapolation` outside the map.
    `nearest` settles ties and fractions: round_prefer_floor, round_prefer_ceil, floor or ceil. `cubic_a` shapes
    the cubic. `exclude_outside`, `antialias`: see `mixing` in ops/_interpolation.py.
    """
    wanted = _plan(x, size, axes, mode, coordinates, roi)
    y = x
    for axis, new, part in wanted:
        old = y.shape[axis]
        at = positions(old, new, coordinates, part)
        if mode == "nearest":
            y = np.take(y, picks(at, old, nearest), axis)
        else:
            y = _mixed(y, axis, *mixing(at, old, new, mode, cubic_a, exclude_outside, antialias))
    outside = _outside(x, wanted, coordinates)
    if outside is not None:
        y = np.where(outside, y.dtype.type(extrapolation), y)
    return y if y is not x else x.copy()


def _plan(
    x: Any, size: Any, axes: Any, mode: str, coordinates: str, roi: Any
) -> list[tuple[int, int, tuple[float, float] | None]]:
    """(axis, new size, part of it) of every axis that changes."""
    rank = len(x.shape)
    count = len(axes) if axes is not None else (1 if isinstance(size, (int, np.integer)) else len(size))
    sizes = per_axis(size, count, "size")
    need(count <= rank, f"size names {count} axes, the input has {rank}")
    where = [a % rank for a in axes] if axes is not None else list(range(rank - count, rank))
    need(len(set(where)) == count, f"axes must differ, got {axes}")
    need(mode in ("nearest", "linear", "cubic"), f"mode must be 'nearest', 'linear' or 'cubic', got {mode!r}")
    need(coordinates in COORDINATES, f"coordinates must be one of {', '.join(COORDINATES)}, got {coordinates!r}")
    crop = coordinates == "tf_crop_and_resize"
    need(crop or roi is None, f"roi belongs to coordinates='tf_crop_and_resize', got {coordinates!r}")
    need(roi is None or len(roi) == 2 * count, f"roi must be {2 * count} numbers: starts, then ends, got {roi}")
    parts: list[Any] = [None] * count if roi is None else list(zip(roi[:count], roi[count:]))
    for axis in where:
        need(x.shape[axis] > 0, f"axis {axis} of {tuple(x.shape)} has no cells to resize")
    return [(a, n, p) for a, n, p in zip(where, sizes, parts) if crop or x.shape[a] != n]


def _mixed(y: Any, axis: int, cells: Any, weights: Any) -> Any:
    shape = (-1, *(1,) * (y.ndim - axis - 1))
    total: Any = None
    for t in range(cells.shape[1]):
        term = np.take(y, cells[:, t], axis)
        term *= weights[:, t].reshape(shape).astype(y.dtype)
        total = term if total is None else np.add(total, term, out=total)
    return total


def _outside(x: Any, wanted: Any, coordinates: str) -> Any:
    """Where "tf_crop_and_resize" looks outside the map: a mask that broadcasts to the result, or None."""
    if coordinates != "tf_crop_and_resize":
        return None
    mask: Any = np.zeros((1,) * len(x.shape), bool)
    for axis, new, part in wanted:
        at = positions(x.shape[axis], new, coordinates, part)
        out = (at < 0) | (at > x.shape[axis] - 1)
        mask = mask | out.reshape(-1, *(1,) * (len(x.shape) - axis - 1))
    return mask if mask.any() else None
