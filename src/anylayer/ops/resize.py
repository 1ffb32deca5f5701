"""Resizing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from anylayer.errors import need
from anylayer.graph.facts import repetition
from anylayer.graph.sizes import is_static
from anylayer.graph.symbolic import is_symbolic, plain, same
from anylayer.network import Array
from anylayer.ops._indexing import axes_of
from anylayer.ops._interpolation import (
    COORDINATES,
    Interpolation,
    as_matrix,
    attributes_of,
    positions,
    repeating,
    taps,
)
from anylayer.ops._operator import operator
from anylayer.ops._spatial import Ints, need_room, per_axis
from anylayer.tracing import is_traced, record
from anylayer.tracing.primitives import ints


class ResizedAxis(NamedTuple):
    """An axis to resize. part: (start, end) for tf_crop_and_resize. scale: replaces new / old if it is given."""

    axis: int
    new: int
    part: tuple[float, float] | None = None
    scale: float | None = None


@operator
def resize(
    x: Array,
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
    scales: Sequence[float] | None = None,
    by_step: bool = False,
    table: int = 0,
) -> Array:
    """Resize `axes` (default: the last ones) of `x` to `size`, one axis after the other (ONNX Resize-18).

    `coordinates` maps output cell i to a position on the input axis. With s = new / old:
        half_pixel: (i + 0.5) / s - 0.5. half_pixel_symmetric: the same, because the size is given.
        pytorch_half_pixel: the same, but 0 if new is 1.
        asymmetric: i / s. tf_half_pixel_for_nn: (i + 0.5) / s. align_corners: i * (old - 1) / (new - 1).
        tf_crop_and_resize: the part `roi` of the axes (all starts, then all ends, each 0 to 1); the value is
        `extrapolation` outside the map.
    `mode` is the interpolation: "nearest", "linear" or "cubic". `nearest` rounds positions to cells: floor, ceil,
    round_prefer_floor, round_prefer_ceil, or simple (ceil where an axis shrinks, else floor). `cubic_a` is the
    coefficient of the cubic kernel. With `exclude_outside`, cells outside the map get the weight 0, and the others
    are scaled to sum to 1. `antialias` stretches the kernel where an axis shrinks. `scales` (one number per axis)
    replaces s in the rules that use it, for a scale that does not give an integer number of cells. `by_step`
    multiplies by 1 / s in float32, as TensorFlow and Caffe do, in place of dividing by s; this decides ties of
    "nearest". `table` rounds positions to 1 / table of a cell, as TensorFlow's bicubic resize with its table of
    1024 steps. Raises LayerError for arguments that do not fit each other or `x`.

    Linear and cubic values of integers are rounded to the nearest integer and limited to the dtype's range, as in
    ONNX's reference implementation (numpy_helper.saturate_cast).
    """
    rule = Interpolation(mode, coordinates, nearest, cubic_a, exclude_outside, antialias, by_step, table)
    if x.dtype.kind in "iu" and mode != "nearest":
        return _of_integers(x, size, axes, rule, roi, extrapolation, scales)
    changes = _plan(x, size, axes, rule, roi, scales)
    y = x
    for axis, new, part, scale in changes:
        cells, weights = taps(rule, y.shape[axis], new, part, scale)
        y = np.take(y, cells[:, 0], axis) if weights is None else _interpolate(y, axis, cells, weights)
    outside = _outside(x, changes, rule)
    if outside is not None:
        y = np.where(outside, y.dtype.type(extrapolation), y)
    return y if y is not x else x.copy()


def _of_integers(
    x: Array,
    size: Ints,
    axes: Sequence[int] | None,
    rule: Interpolation,
    roi: Sequence[float] | None,
    extrapolation: float,
    scales: Sequence[float] | None,
) -> Array:
    """Interpolate integers in float32 or float64, and return the nearest integers that the dtype has."""
    options: Any = {"axes": axes, "roi": roi, "extrapolation": extrapolation, "scales": scales, **rule._asdict()}
    y = resize(x.astype(np.float32 if x.dtype.itemsize < 4 else np.float64), size, **options)
    low, high = np.iinfo(x.dtype).min, np.iinfo(x.dtype).max
    if x.dtype.itemsize == 8:  # the largest float below the limit
        high = int(np.nextafter(np.float64(high), 0))
    return np.clip(np.round(y), y.dtype.type(low), y.dtype.type(high)).astype(x.dtype)


def _plan(
    x: Array,
    size: Ints,
    axes: Sequence[int] | None,
    rule: Interpolation,
    roi: Sequence[float] | None,
    scales: Sequence[float] | None,
) -> list[ResizedAxis]:
    """Return the axes that change."""
    rank, mode, coordinates = len(x.shape), rule.mode, rule.coordinates
    count = len(axes) if axes is not None else (1 if isinstance(size, (int, np.integer)) else len(size))
    sizes = per_axis(size, count, "size")
    need(count <= rank, f"size names {count} axes, the input has {rank}")
    where = axes_of(axes, rank) if axes is not None else list(range(rank - count, rank))
    need(mode in ("nearest", "linear", "cubic"), f"mode must be 'nearest', 'linear' or 'cubic', got {mode!r}")
    need(coordinates in COORDINATES, f"coordinates must be one of {', '.join(COORDINATES)}, got {coordinates!r}")
    shape = list(x.shape)
    for axis, n in zip(where, sizes):
        shape[axis] = n
    need_room(shape, "the result")
    crop = coordinates == "tf_crop_and_resize"
    need(crop or roi is None, f"roi belongs to coordinates='tf_crop_and_resize', got {coordinates!r}")
    need(roi is None or len(roi) == 2 * count, f"roi must be {2 * count} numbers: starts, then ends, got {roi}")
    rules = ("half_pixel", "pytorch_half_pixel", "asymmetric", "tf_half_pixel_for_nn")
    need(
        scales is None or (coordinates in rules and not rule.antialias),
        f"scales belong to coordinates={', '.join(rules)} without antialias, got {coordinates!r}",
    )
    need(scales is None or len(scales) == count, f"scales must be {count} numbers, got {len(scales or ())}")
    for axis in where:
        need(x.shape[axis] > 0, f"axis {axis} of {tuple(x.shape)} has no cells to resize")
    parts = [None] * count if roi is None else [*zip(roi[:count], roi[count:])]
    factors = [None] * count if scales is None else scales
    plan = [ResizedAxis(*axis) for axis in zip(where, sizes, parts, factors)]
    return [axis for axis in plan if crop or not same(x.shape[axis.axis], axis.new)]


def _interpolate(y: Array, axis: int, cells: Array, weights: Array) -> Array:
    shape = (-1, *(1,) * (y.ndim - axis - 1))
    total: Array = np.zeros(())
    for t in range(cells.shape[1]):
        term = np.take(y, cells[:, t], axis)
        term *= weights[:, t].reshape(shape).astype(y.dtype)
        total = term if t == 0 else np.add(total, term, out=total)
    return total


def _outside(x: Array, changes: Sequence[ResizedAxis], rule: Interpolation) -> Array | None:
    """Return where "tf_crop_and_resize" reads outside the map: a mask that broadcasts to the result, or None."""
    if rule.coordinates != "tf_crop_and_resize":
        return None
    mask: Array = np.zeros((1,) * len(x.shape), bool)
    for axis, new, part, _ in changes:
        at = positions(x.shape[axis], new, rule.coordinates, part)
        out = (at < 0) | (at > x.shape[axis] - 1)
        mask = mask | out.reshape(-1, *(1,) * (len(x.shape) - axis - 1))
    return mask if mask.any() else None


@resize.form
def _(
    x: Array,
    size: Ints,
    *,
    axes: Sequence[int] | None,
    mode: Literal["nearest", "linear", "cubic"],
    coordinates: str,
    nearest: str,
    cubic_a: float,
    exclude_outside: bool,
    antialias: bool,
    roi: Sequence[float] | None,
    extrapolation: float,
    scales: Sequence[float] | None,
    by_step: bool,
    table: int,
) -> Array:
    """Record one Resize, where ONNX's has the same rule. optimize.rewrites.resizing lowers it.

    The cells and weights are recorded for a part of an axis, a scale that is not new / old, and a table, and for
    symbolic sizes where engines round positions differently.
    """
    rule = Interpolation(mode, coordinates, nearest, cubic_a, exclude_outside, antialias, by_step, table)
    if x.dtype.kind in "iu" and mode != "nearest":
        return _of_integers(x, size, axes, rule, roi, extrapolation, scales)
    changes = _plan(x, size, axes, rule, roi, scales)
    if not changes:
        return record("Identity", [x], x.shape, x.dtype)
    whole = _recorded_rule(x, changes, rule)
    if whole is not None:
        return _one_operator(x, changes, whole)
    y = by_cells(x, changes, rule)
    outside = _outside(x, changes, rule)
    if outside is not None:
        y = record("Where", [outside, np.array(extrapolation, y.dtype), y], y.shape, y.dtype)
    return y


def _recorded_rule(x: Array, changes: Sequence[ResizedAxis], rule: Interpolation) -> Interpolation | None:
    """Return the rule of the ONNX Resize that computes the same, or None if there is none."""
    if rule.table or rule.coordinates == "tf_crop_and_resize" or any(a.scale is not None for a in changes):
        return None
    sizes = [(x.shape[a.axis], a.new) for a in changes]
    bounded = rule.exclude_outside and (rule.mode == "cubic" or rule.antialias)
    standard = rule._replace(by_step=False, exclude_outside=bounded)
    if rule.coordinates == "half_pixel_symmetric":
        standard = standard._replace(coordinates="half_pixel")
    has_symbols = any(is_symbolic(n) for pair in sizes for n in pair)
    if rule.mode != "nearest":
        certain = not has_symbols or is_certain(standard, len(x.shape), [a.axis for a in changes])
        return standard if certain else None
    if all(_repeats(old, new, rule) for old, new in sizes):
        return repeating([new // old for old, new in sizes])
    if has_symbols:
        return None
    if rule.nearest == "simple":
        standard = standard._replace(nearest="ceil" if sizes[0][1] < sizes[0][0] else "floor")
    differs = any((taps(rule, *pair)[0] != taps(standard, *pair)[0]).any() for pair in sizes)
    return None if differs else standard


def is_certain(rule: Interpolation, rank: int, axes: Sequence[int]) -> bool:
    """Return whether all engines interpolate as NumPy by this rule: linearly, rows and columns of images."""
    planar = rank == 4 and (min(axes) >= 2 or (min(axes) >= 1 and max(axes) <= 2))
    return planar and rule.mode == "linear" and not rule.antialias


def _repeats(old: int, new: int, rule: Interpolation) -> bool:
    """Return whether each cell of the axis is repeated equally often, at every size that it may have."""
    times = new // old
    if is_symbolic(times) or not same(new, old * times):
        return False
    if is_symbolic(old) and (rule.coordinates == "align_corners" or (rule.by_step and times.bit_count() != 1)):
        return False
    old, new = plain((old, new))
    return repetition(taps(rule, old, new)[0][:, 0], old) > 0


def _one_operator(x: Array, changes: Sequence[ResizedAxis], rule: Interpolation) -> Array:
    shape = list(x.shape)
    for a in changes:
        shape[a.axis] = a.new
    attrs = attributes_of(rule)
    sizes = shape
    if not is_static(shape):  # a dynamic axis is not resized
        attrs["axes"] = [a.axis for a in changes]
        sizes = [a.new for a in changes]
    return record("Resize", [x, None, None, ints(sizes)], shape, x.dtype, **attrs)


def by_cells(x: Array, changes: Sequence[ResizedAxis], rule: Interpolation) -> Array:
    """Record the selection of cells by a Slice or Gather per axis, or products with interpolation matrices."""
    if rule.mode == "nearest":
        for axis, new, part, scale in sorted(changes, key=lambda a: -a.axis):  # the inner axis first
            x = _select(x, axis, new, taps(rule, x.shape[axis], new, part, scale)[0][:, 0])
        return x
    y = x
    # the axis that shrinks most first
    for axis, new, part, scale in sorted(changes, key=lambda a: int(a.new) / int(x.shape[a.axis])):
        old = x.shape[axis]
        cells, weights = taps(rule, old, new, part, scale)
        y = _times_matrix(y, axis, as_matrix(cells, weights, old).astype(x.dtype))
    return y


def _select(x: Array, axis: int, new: int, cells: Array) -> Array:
    shape = (*x.shape[:axis], new, *x.shape[axis + 1 :])
    if not is_traced(cells) and new > 1:
        steps = np.diff(cells)
        if steps[0] > 0 and (steps == steps[0]).all():
            bounds = [np.array([v]) for v in (cells[0], cells[-1] + 1, axis, steps[0])]
            return record("Slice", [x, *bounds], shape, x.dtype)
    return record("Gather", [x, cells], shape, x.dtype, axis=axis)


def _times_matrix(y: Array, axis: int, matrix: Array) -> Array:
    """Multiply one axis of `y` by an interpolation matrix (new, old)."""
    shape, rank = list(y.shape), len(y.shape)
    new, old = matrix.shape
    new_shape = [*shape[:axis], new, *shape[axis + 1 :]]
    if axis == rank - 1:
        return record(
            "MatMul", [y, matrix.T if is_traced(matrix) else np.ascontiguousarray(matrix.T)], new_shape, y.dtype
        )
    if axis == rank - 2:
        return record("MatMul", [matrix, y], new_shape, y.dtype)
    inner = math.prod(shape[axis + 1 :])
    flat = [*shape[:axis], old, inner]
    y = record("Reshape", [y, ints(flat)], flat, y.dtype)
    flat[-2] = new
    y = record("MatMul", [matrix, y], flat, y.dtype)
    return record("Reshape", [y, ints(new_shape)], new_shape, y.dtype)
