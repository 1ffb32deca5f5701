"""Where the cells of a resized axis lie on the input axis, and which cells and weights they read.

Everything here depends on sizes alone. The rules are those of ONNX Resize-18; all formats, engines and targets ask
here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anylayer.errors import need
from anylayer.graph.ir import Op
from anylayer.graph.sizes import is_static
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


class Interpolation(NamedTuple):
    """A rule of resizing. The fields are the arguments of `ops.resize`."""

    mode: str = "linear"
    coordinates: str = "half_pixel"
    nearest: str = "floor"
    cubic_a: float = -0.75
    exclude_outside: bool = False
    antialias: bool = False
    by_step: bool = False
    table: int = 0


CENTERS = Interpolation("nearest", "half_pixel", "round_prefer_floor")
"""The rule that repeats cells by any integer factors: no center of a new cell is in the middle of two old ones."""


def repeating(factors: Sequence[int]) -> Interpolation:
    """Return the rule of "nearest" by which every engine repeats cells by these factors exactly."""
    if all(factor.bit_count() == 1 for factor in factors):
        return Interpolation("nearest", "asymmetric", "floor")  # i / 2^k is exact everywhere
    return CENTERS


def attributes_of(rule: Interpolation) -> dict[str, Any]:
    """Return the attributes of a Resize by a rule: the inverse of `interpolation_of`."""
    attrs: dict[str, Any] = {"mode": rule.mode, "coordinate_transformation_mode": rule.coordinates}
    if rule.mode == "nearest":
        attrs["nearest_mode"] = rule.nearest
    else:
        attrs |= {name: 1 for name in ("exclude_outside", "antialias") if getattr(rule, name)}
    if rule.mode == "cubic":
        attrs["cubic_coeff_a"] = rule.cubic_a
    return attrs


def interpolation_of(o: Op) -> Interpolation:
    """Return the rule of a Resize."""
    return Interpolation(
        o["mode"],
        o["coordinate_transformation_mode"],
        o["nearest_mode"],
        float(o["cubic_coeff_a"]),
        bool(o["exclude_outside"]),
        bool(o["antialias"]),
    )


def resized_axes(o: Op) -> list[int] | None:
    """Return the axes that a Resize changes, or None where its positions do not follow from static sizes alone."""
    x, shape = o.first, o.outputs[0].shape
    axes = [i for i, (old, new) in enumerate(zip(x.shape, shape)) if old is not new and old != new]
    scales = o.input(2)
    if not is_static([n for i in axes for n in (x.shape[i], shape[i])]):
        return None
    if o["coordinate_transformation_mode"] == "align_corners" and not o["antialias"]:
        return axes  # only the sizes count
    if scales is not None and scales.shape != (0,):
        named = o["axes"] or range(len(x.shape))
        ratios = [shape[a] / x.shape[a] for a in named] if is_static(shape) and scales.const is not None else None
        if scales.const is None or ratios is None or not np.allclose(ratios, scales.const, 0, 1e-6):
            return None
    elif o["keep_aspect_ratio_policy"] != "stretch" and o["mode"] != "nearest":
        return None
    return None if o["coordinate_transformation_mode"] == "tf_crop_and_resize" else axes


def taps(
    rule: Interpolation, old: int, new: int, part: tuple[float, float] | None = None, scale: float | None = None
) -> tuple[Array, Array | None]:
    """Return the cells (new, taps) that each of `new` output cells reads, and their weights; None for a copy.

    Cells are int64, weights float32. `part` and `scale` are `roi` and `scale` of `positions`.
    """
    step = step_of(old, new, rule.coordinates) if rule.by_step else None
    at = positions(old, new, rule.coordinates, part, scale, step)
    if rule.mode == "nearest":
        simple = "ceil" if new < old else "floor"
        return nearest_cells(at, old, simple if rule.nearest == "simple" else rule.nearest)[:, None], None
    if rule.table:
        first = np.floor(at)
        at = first + np.rint((at - first) * rule.table) / rule.table
    return interpolation(at, old, new, rule.mode, rule.cubic_a, rule.exclude_outside, rule.antialias)


def step_of(old: int, new: int, coordinates: str, dtype: Any = np.float32) -> Any:
    """Return the distance of two output cells, in input cells."""
    if coordinates == "align_corners":
        return dtype(old - 1) / dtype(new - 1) if new > 1 else dtype(0)
    return dtype(old) / dtype(new)


def positions(
    old: int,
    new: int,
    coordinates: str,
    roi: tuple[float, float] | None = None,
    scale: float | None = None,
    step: Any = None,
) -> Array:
    """Return where each of `new` output cells falls on an axis of `old` input cells: (new,).

    The center of input cell 0 is at 0. `coordinates` is one of ONNX's coordinate_transformation_mode. `roi`
    (start, end), each from 0 to 1, is the part of the axis that "tf_crop_and_resize" takes. `scale` replaces new /
    old. "half_pixel_symmetric" equals "half_pixel", because the output size is given.

    Cells are divided by the scale new / old in float32, as ONNX's engines do. With a `step`, the distance of two
    output cells, they are multiplied by it in its dtype, as TensorFlow, Caffe and OpenCV do.
    """
    need(coordinates in COORDINATES, f"coordinates must be one of {', '.join(COORDINATES)}, got {coordinates!r}")
    dtype = _f if step is None else step.dtype.type
    point, half = np.arange(new, dtype=dtype), dtype(0.5)
    if coordinates == "tf_crop_and_resize":
        start, end = map(_f, roi or (0, 1))
        if new > 1:
            return start * _f(old - 1) + point * (end - start) * _f(old - 1) / _f(new - 1)
        return half * (start + end) * _f(old - 1) + point
    at: Array
    if new == 1 and coordinates in ("align_corners", "pytorch_half_pixel"):
        return point * dtype(0)
    if "half_pixel" in coordinates:
        point = point + half
    if step is not None:
        at = point * step
    elif coordinates == "align_corners":
        at = point * _f(old - 1) / _f(new - 1)
    else:
        at = point / (_f(new) / _f(old) if scale is None else _f(scale))
    return at if coordinates in ("asymmetric", "align_corners", "tf_half_pixel_for_nn") else at - half


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


def as_matrix(cells: Array, weights: Array | None, old: int) -> Array:
    """Return cells and weights (new, taps) as an interpolation matrix of shape (new, old), float32.

    None stands for weights of 1.
    """
    matrix = np.zeros((len(cells), old), np.float32)
    np.add.at(matrix, (np.arange(len(cells))[:, None], cells), 1 if weights is None else weights)
    return matrix
