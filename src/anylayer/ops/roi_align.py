"""ROI Align."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from anylayer.errors import TraceError, need, need_shape
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import Ints, integer, need_room, per_axis
from anylayer.tracing import record
from anylayer.tracing.primitives import cast

_MAX_SAMPLES = 1 << 16  # samples per axis of a region


@operator
def roi_align(
    x: Array,
    rois: Array,
    batch: Array,
    *,
    size: Sequence[int] | int,
    spatial_scale: float = 1.0,
    sampling_ratio: int = 0,
    mode: Literal["avg", "max"] = "avg",
    half_pixel: bool = True,
) -> Array:
    """Sample `size` = (h, w) bins of each region of `x` (N, C, H, W): the result is (K, C, h, w).

    ONNX RoiAlign-16; Mask R-CNN, arXiv 1703.06870. Each row of `rois` (K, 4) holds x1, y1, x2, y2 in units of 1 /
    spatial_scale cells; `batch` (K,) holds the image of each region. A bin is the mean, or with mode "max" the
    maximum, of `sampling_ratio` x `sampling_ratio` bilinear samples. With sampling_ratio=0, the number of samples
    per axis is the number of cells per bin, rounded up. `half_pixel` shifts regions by -0.5 cells; without it,
    each side of a region is at least one cell (ONNX: `output_half_pixel`). A sample more than one cell outside the
    map is 0. A bin without samples is 0: that of a region without area with sampling_ratio=0. Raises LayerError
    for other shapes, and TraceError if mode="max" is traced with sampling_ratio=0, because the number of samples
    would depend on data.
    """
    height, width, ratio = _check(x, rois, batch, size, spatial_scale, sampling_ratio, mode)
    rois = np.asarray(rois, np.float32)
    offset = np.float32(0.5 if half_pixel else 0)
    corners = rois * np.float32(spatial_scale) - offset
    extents = corners[:, 2:] - corners[:, :2]
    if not half_pixel:
        extents = np.maximum(extents, np.float32(1))
    y = np.empty((len(rois), x.shape[1], height, width), x.dtype)
    for k, image in enumerate(np.asarray(batch).astype(np.int64)):
        need(0 <= image < x.shape[0], f"region {k} names image {image} of a batch of {x.shape[0]}")
        columns, col0 = _samples(corners[k, 0], extents[k, 0], width, ratio, x.shape[3], mode)
        rows, row0 = _samples(corners[k, 1], extents[k, 1], height, ratio, x.shape[2], mode)
        part = x[image, :, row0 : row0 + rows.shape[1], col0 : col0 + columns.shape[1]]
        samples = rows @ (part @ columns.T)
        if mode == "max":
            samples = samples.reshape(-1, height, len(rows) // height, width, len(columns) // width).max((2, 4))
        y[k] = samples
    return y


def _check(
    x: Array, rois: Array, batch: Array, size: Ints, spatial_scale: float, sampling_ratio: int, mode: str
) -> tuple[int, int, int]:
    need(len(x.shape) == 4, f"roi_align needs an input (N, C, H, W), got shape {tuple(x.shape)}")
    need_shape(rois, ("K", 4), "rois", about=": x1, y1, x2, y2")
    need_shape(batch, tuple(rois.shape[:1]), "batch", about=", one image per region")
    need(mode in ("avg", "max"), f"mode must be 'avg' or 'max', got {mode!r}")
    height, width = per_axis(size, 2, "size")
    need_room((rois.shape[0], x.shape[1], height, width), "the result")
    need(spatial_scale > 0, f"spatial_scale must be more than 0, got {spatial_scale}")
    return height, width, integer(sampling_ratio, "sampling_ratio", 0)


def _samples(
    start: np.float32, extent: np.float32, bins: int, ratio: int, cells: int, mode: str
) -> tuple[Array, int]:
    """Return the bilinear weights along one axis, and the first cell that they apply to.

    The weights have one row per bin (the mean of its samples) for "avg", and one row per sample for "max". Both
    modes are separable: the two-dimensional weights are products of the weights of the two axes.
    """
    step = extent / np.float32(bins)
    grid = ratio or int(np.ceil(step))
    if grid < 1:
        return np.zeros((bins, 1), np.float32), 0
    need(
        grid * bins <= _MAX_SAMPLES,
        f"a region of {extent:g} cells needs {grid * bins} samples, more than {_MAX_SAMPLES}",
    )
    bin_, sample = np.divmod(np.arange(bins * grid), grid)
    at = (
        start
        + bin_.astype(np.float32) * step
        + (sample.astype(np.float32) + np.float32(0.5)) * step / np.float32(grid)
    )
    inside = (at >= -1) & (at <= cells)
    at = np.clip(at, 0, cells - 1)
    low = at.astype(np.int64)
    high = np.minimum(low + 1, cells - 1)
    first, last = int(low.min()), int(high.max())
    weights = np.zeros((bins * grid, last - first + 1), np.float32)
    part = at - low.astype(np.float32)
    row = np.arange(bins * grid)
    np.add.at(weights, (row, low - first), (1 - part) * inside)
    np.add.at(weights, (row, high - first), part * inside)
    if mode == "avg":
        weights = weights.reshape(bins, grid, -1).mean(axis=1)
    return weights, first


@roi_align.form
def _(
    x: Array, rois: Array, batch: Array, *, mode: str, half_pixel: bool, spatial_scale: float, **how: Any
) -> Array:
    """Record RoiAlign. For mode "max", record one sample per bin of a finer grid, and MaxPool.

    The mode "max" of the engines' RoiAlign is the maximum over the weighted taps, not over the samples.
    """
    height, width, ratio = _check(x, rois, batch, mode=mode, spatial_scale=spatial_scale, **how)
    fine = 1
    if mode == "max":
        need(
            ratio > 0,
            "roi_align with mode='max' and sampling_ratio=0 takes a number of samples that depends on the values "
            "of the regions; pass a sampling_ratio",
            TraceError,
        )
        fine = ratio
    shape = (rois.shape[0], x.shape[1], height * fine, width * fine)
    y: Array = record(
        "RoiAlign",
        [x, rois, cast(batch, np.int64)],
        shape,
        x.dtype,
        coordinate_transformation_mode="half_pixel" if half_pixel else "output_half_pixel",
        mode="avg",
        output_height=shape[2],
        output_width=shape[3],
        sampling_ratio=1 if mode == "max" else ratio,
        spatial_scale=float(spatial_scale),
    )
    if fine > 1:
        y = record(
            "MaxPool", [y], (*shape[:2], height, width), x.dtype, kernel_shape=[fine, fine], strides=[fine, fine]
        )
    if half_pixel and not ratio:
        sampled = (rois[:, 2] > rois[:, 0]) & (rois[:, 3] > rois[:, 1])
        y = np.where(sampled[:, None, None, None], y, x.dtype.type(0))
    return y
