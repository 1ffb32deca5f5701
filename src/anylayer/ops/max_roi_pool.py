"""ROI max pooling."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anylayer.errors import need, need_shape
from anylayer.network import Array
from anylayer.ops._operator import operator
from anylayer.ops._spatial import Ints, need_room, per_axis
from anylayer.tracing import record


@operator
def max_roi_pool(x: Array, rois: Array, *, size: Sequence[int] | int, spatial_scale: float = 1.0) -> Array:
    """Return the maximum of each of `size` = (h, w) bins of each region of `x` (N, C, H, W): (K, C, h, w).

    Each row of `rois` (K, 5) holds the image and the corners x1, y1, x2, y2, both included, in units of 1 /
    spatial_scale cells; they are rounded to whole cells, halves away from zero. A cell on the border of two bins
    belongs to both. An empty bin is 0. ONNX MaxRoiPool-1; Fast R-CNN (arXiv 1504.08083), roi_pooling_layer.cpp.
    Raises LayerError for other shapes, and for NumPy arrays if a region names an image that does not exist.
    """
    height, width = _check(x, rois, size)
    rois = np.asarray(rois, np.float32)
    y = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    scaled = (rois[:, 1:] * np.float32(spatial_scale)).astype(np.float64)  # in which adding 0.5 is exact
    corners = (np.sign(scaled) * np.floor(np.abs(scaled) + 0.5)).astype(np.int64)
    for k, (image, (x1, y1, x2, y2)) in enumerate(zip(rois[:, 0].astype(np.int64), corners)):
        need(0 <= image < x.shape[0], f"region {k} names image {image} of a batch of {x.shape[0]}")
        rows = {
            i: x[image, :, top:bottom].max(axis=1)
            for i, (top, bottom) in enumerate(_bins(y1, y2, height, x.shape[2]))
            if bottom > top
        }
        if not rows:
            continue
        strips = np.stack(list(rows.values()), axis=1)
        for j, (left, right) in enumerate(_bins(x1, x2, width, x.shape[3])):
            if right > left:
                y[k, :, list(rows), j] = strips[:, :, left:right].max(axis=2).T
    return y


def _check(x: Array, rois: Array, size: Ints) -> tuple[int, int]:
    need(len(x.shape) == 4, f"max_roi_pool needs an input (N, C, H, W), got shape {tuple(x.shape)}")
    need_shape(rois, ("K", 5), "rois", about=": image, x1, y1, x2, y2")
    height, width = per_axis(size, 2, "size")
    need_room((rois.shape[0], x.shape[1], height, width), "the result")
    return height, width


def _bins(start: int, end: int, count: int, cells: int) -> list[tuple[int, int]]:
    """Return (first cell, last cell + 1) of each bin, clipped to the map."""
    step = np.float32(max(end - start + 1, 1)) / np.float32(count)
    number = np.arange(count, dtype=np.float32)
    low = np.clip(np.floor(number * step).astype(np.int64) + start, 0, cells)
    high = np.clip(np.ceil((number + 1) * step).astype(np.int64) + start, 0, cells)
    return [(int(a), int(b)) for a, b in zip(low, high)]


@max_roi_pool.form
def _(x: Array, rois: Array, *, size: Sequence[int] | int, spatial_scale: float = 1.0) -> Array:
    height, width = _check(x, rois, size)
    return record(
        "MaxRoiPool",
        [x, rois],
        (rois.shape[0], x.shape[1], height, width),
        x.dtype,
        pooled_shape=[height, width],
        spatial_scale=float(spatial_scale),
    )
