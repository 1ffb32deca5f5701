"""Recognize points of GridSample that are an affine map of the plane, as Caffe's SpatialTransformer samples them.

However the points are computed, they are evaluated: once for each of the six numbers of the map, and for other
numbers to compare.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from anylayer.graph import Op, Value
from anylayer.graph.facts import Producers
from anylayer.graph.sizes import is_static
from anylayer.layer.in_numpy import compute
from anylayer.network import Array

_MAX_ERROR = 1e-4
"""The largest difference of a point from the affine map, relative to the largest coordinate."""
_NOISE = 1e-6
"""Smaller numbers of a map are rounding errors of 0."""


@dataclass(frozen=True, slots=True)
class AffineMap:
    """Caffe's numbers t11 t12 t13 t21 t22 t23: `matrix` (6, 6) times `theta` (N, 6), plus `offset` (6,). They are
    `offset` if `theta` is None.
    """

    theta: Value | None
    matrix: Array
    offset: Array


def affine_map(grid: Value, size: Sequence[int], align_corners: bool, producers: Producers) -> AffineMap | None:
    """Return the affine map whose points `grid` (N, rows, columns, 2) contains, for an input of `size` (H, W). Its
    numbers are constants, or a value (N, 2, 3) or (N, 6). Return None for other points.

    Caffe's output pixel (r, c) has the coordinates (g0, g1) = (2 r / rows - 1, 2 c / columns - 1), and samples
    column (t21 g0 + t22 g1 + t23 + 1) / 2 * W. A point x of ONNX means column ((x + 1) * W - 1) / 2, with
    `align_corners` (x + 1) / 2 * (W - 1). Therefore t21 g0 + t22 g1 + t23 is x - 1 / W, with `align_corners`
    x (W - 1) / W - 1 / W. The same holds for rows.
    """
    source = _from_theta(grid, producers)
    if source is None or not is_static((*size, *grid.shape)) or 0 in (*size, *grid.shape):
        return None
    theta, ops = source
    points = _Points(grid, theta, ops)
    n = grid.shape[0]
    offset = points.coefficients_for(np.zeros((n, 6)))[0]
    matrix = np.stack([points.coefficients_for(np.tile(row, (n, 1)))[0] - offset for row in np.eye(6)], axis=1)
    if not points.are(matrix, offset):
        return None
    sizes = np.repeat(np.array(size, np.float64), 3)
    factor = (sizes - 1) / sizes if align_corners else np.ones(6)
    offset = offset * factor - np.tile([0, 0, 1], 2) / sizes
    return AffineMap(theta, *(_without_noise(x) for x in (matrix * factor[:, None], offset)))


def _without_noise(numbers: Array) -> Array:
    return np.where(np.abs(numbers) < _NOISE, 0, numbers).astype(np.float32)


def _from_theta(grid: Value, producers: Producers) -> tuple[Value | None, list[Op]] | None:
    """Return (theta, operators): these operators, in order, compute `grid` from theta and constants. theta is None
    for a constant. Return None where `grid` depends on something else.
    """
    theta: Value | None = None
    ops: dict[Op, None] = {}
    pending = [(grid, False)]
    while pending:
        value, is_ready = pending.pop()
        producer = producers.get(value)
        if value.const is not None or value is theta or producer in ops:
            continue
        if value.shape in ((grid.shape[0], 2, 3), (grid.shape[0], 6)) and theta is None:
            theta = value
        elif producer is None or producer.domain:
            return None
        elif is_ready:
            ops[producer] = None
        else:
            pending += [(value, True), *((v, False) for v in producer.inputs if v is not None)]
    return theta, list(ops)


class _Points:
    """The points (N, rows, columns, 2) that operators compute from theta."""

    def __init__(self, grid: Value, theta: Value | None, ops: Sequence[Op]) -> None:
        self.grid, self.theta, self.ops = grid, theta, ops
        ranges = [2 * np.arange(n) / n - 1 for n in grid.shape[1:3]]
        g0, g1 = (g.reshape(-1) for g in np.meshgrid(*ranges, indexing="ij"))
        self.plane = np.stack([g0, g1, np.ones_like(g0)], axis=1)

    def of(self, numbers: Array) -> Array:
        """Return the points (N, 2, rows * columns), y before x, for numbers (N, 6) of theta."""
        values: dict[Value, Array] = {}
        if self.theta is not None:
            values[self.theta] = numbers.astype(self.theta.dtype).reshape(self.theta.shape)
        for op in self.ops:
            inputs = [None if v is None else values.get(v, v.const) for v in op.inputs]
            values.update(zip(op.outputs, compute(op, inputs)))
        points = np.asarray(values.get(self.grid, self.grid.const), np.float64)
        return points.reshape(len(numbers), -1, 2).transpose(0, 2, 1)[:, ::-1]

    def coefficients_for(self, numbers: Array) -> Array:
        """Return the coefficients (N, 6) of g0, g1 and 1 that fit the points best."""
        points = self.of(numbers).reshape(-1, len(self.plane))
        coefficients: Array = np.linalg.lstsq(self.plane, points.T, rcond=None)[0]
        return coefficients.T.reshape(-1, 6)

    def are(self, matrix: Array, offset: Array) -> bool:
        """Return whether the points are those of the coefficients `matrix` times theta plus `offset`."""
        numbers = np.random.default_rng(0).standard_normal((self.grid.shape[0], 6))
        points, expected = self.of(numbers), (numbers @ matrix.T + offset).reshape(-1, 2, 3) @ self.plane.T
        return bool(np.abs(points - expected).max() <= _MAX_ERROR * max(float(np.abs(points).max()), 1))
