"""GridSample: sample a map at given points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np

from anylayer.errors import need, need_shape
from anylayer.network import Array
from anylayer.ops._interpolation import cubic_weights
from anylayer.ops._operator import operator
from anylayer.tracing import record

_MODES = {"linear": "bilinear", "nearest": "nearest", "cubic": "bicubic"}
_PADDINGS = ("zeros", "border", "reflection")


@operator
def grid_sample(
    x: Array,
    grid: Array,
    *,
    mode: Literal["linear", "nearest", "cubic"] = "linear",
    padding: Literal["zeros", "border", "reflection"] = "zeros",
    align_corners: bool = False,
) -> Array:
    """Sample `x` (N, C, H, W) at the points `grid` (N, h, w, 2): the result is (N, C, h, w) (ONNX GridSample-16).

    A point is (x, y). -1 and 1 are the edges of the map, or with `align_corners` the centers of its outermost
    cells. `mode` is the interpolation: "nearest" rounds halves to even, "cubic" has the coefficient -0.75.
    `padding` defines the values outside the map: zeros, the nearest border cell, or the map reflected at its
    edges. Raises LayerError for other shapes, modes or paddings.
    """
    _check(x, grid, mode, padding)
    n, c, h, w = x.shape
    xs = on_axis(grid[..., 0], w, mode, padding, align_corners)
    ys = on_axis(grid[..., 1], h, mode, padding, align_corners)
    points = grid.shape[1] * grid.shape[2]
    y = np.zeros((n, points, c), np.result_type(x, grid))
    for i in range(n):
        cells = np.ascontiguousarray(x[i].reshape(c, -1).T)  # (H * W, C): one row per cell
        for row, row_weight in taps(ys[i].reshape(-1), h, mode, padding, align_corners):
            for column, weight in taps(xs[i].reshape(-1), w, mode, padding, align_corners):
                y[i] += cells[row * w + column] * (row_weight * weight)[:, None]
    return np.ascontiguousarray(y.swapaxes(1, 2)).reshape(n, c, *grid.shape[1:3])


def _check(x: Array, grid: Array, mode: str, padding: str) -> None:
    need(len(x.shape) == 4, f"grid_sample needs an input (N, C, H, W), got shape {tuple(x.shape)}")
    need_shape(grid, (x.shape[0], "h", "w", 2), "grid")
    need(mode in _MODES, f"mode must be one of {', '.join(_MODES)}, got {mode!r}")
    need(padding in _PADDINGS, f"padding must be one of {', '.join(_PADDINGS)}, got {padding!r}")


def on_axis(at: Array, cells: int, mode: str, padding: str, align_corners: bool) -> Array:
    """Return normalized grid coordinates as positions in cells; "reflection" reflects them into the map."""
    at = (at + 1) / 2 * (cells - 1) if align_corners else ((at + 1) * cells - 1) / 2
    if mode == "nearest":
        at = np.rint(at)
    return _mirror(at, cells, align_corners) if padding == "reflection" else at


def _mirror(at: Array, cells: int, align_corners: bool) -> Array:
    low, high = (0.0, cells - 1.0) if align_corners else (-0.5, cells - 0.5)
    if high <= low:
        return np.zeros_like(at)
    away = np.abs(at - low) % (2 * (high - low))
    folded = np.where(away > high - low, 2 * (high - low) - away, away) + low
    return np.where((at < low) | (at > high), folded, at).astype(at.dtype)


def taps(at: Array, cells: int, mode: str, padding: str, align_corners: bool) -> Iterator[tuple[Array, Array]]:
    """Yield (cell, weight) of each cell that the points `at` interpolate along one axis."""
    first = np.rint(at) if mode == "nearest" else np.floor(at)
    part = (at - first).astype(at.dtype)
    if mode == "nearest":
        taps = [(0, np.ones_like(at))]
    elif mode == "linear":
        taps = [(0, 1 - part), (1, part)]
    else:
        taps = [(t, cubic_weights(np.abs(part - t), -0.75).astype(at.dtype)) for t in range(-1, 3)]
    for shift, weight in taps:
        cell = first + shift
        inside = (cell >= 0) & (cell <= cells - 1)
        if padding == "reflection":
            cell = _mirror(cell, cells, align_corners)
        yield (
            np.clip(cell, 0, cells - 1).astype(np.int64),
            np.where(inside, weight, 0).astype(at.dtype) if padding == "zeros" else weight,
        )


@grid_sample.form
def _(x: Array, grid: Array, *, mode: str, padding: str, align_corners: bool) -> Array:
    _check(x, grid, mode, padding)
    return record(
        "GridSample",
        [x, grid],
        (*x.shape[:2], *grid.shape[1:3]),
        x.dtype,
        mode=_MODES[mode],
        padding_mode=padding,
        align_corners=int(align_corners),
    )
