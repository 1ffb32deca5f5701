"""ROI max pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anylayer.errors import need
from anylayer.ops._operator import operator
from anylayer.ops._spatial import need_room, per_axis
from anylayer.tracing import record


@operator
def max_roi_pool(x: Any, rois: Any, *, size: Sequence[int] | int, spatial_scale: float = 1.0) -> Any:
    """The maximum of each of `size` = (h, w) bins of each region of `x` (N, C, H, W): (K, C, h, w).

    `rois` (K, 5) are image, x1, y1, x2, y2, both corners included, in units of 1 / spatial_scale cells, rounded to
    whole cells (halves away from zero). Bins overlap by the cell they share; an empty bin is 0.
    ONNX MaxRoiPool-1; Fast R-CNN's roi_pooling_layer.cpp.
    """
    height, width = _check(x, rois, size)
    rois = np.asarray(rois, np.float32)
    y = np.zeros((len(rois), x.shape[1], height, width), x.dtype)
    scaled = rois[:, 1:] * np.float32(spatial_scale)
    corners = (np.sign(scaled) * np.floor(np.abs(scaled) + np.float32(0.5))).astype(np.int64)
    for k, (image, (x1, y1, x2, y2)) in enumerate(zip(rois[:, 0].astype(np.int64), corners)):
        need(0 <= image < x.shape[0], f"region {k} is of image {image}, there are {x.shape[0]}")
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


def _check(x: Any, rois: Any, size: Any) -> tuple[int, int]:
    need(len(x.shape) == 4, f"max_roi_pool needs an input (N, C, H, W), got shape {tuple(x.shape)}")
    need(
        len(rois.shape) == 2 and rois.shape[1] == 5,
        f"rois must be of shape (K, 5): image, x1, y1, x2, y2, got {tuple(rois.shape)}",
    )
    height, width = per_axis(size, 2, "size")
    need_room((rois.shape[0], x.shape[1], height, width), "the result")
    return height, width


def _bins(start: int, end: int, count: int, cells: int) -> list[tuple[int, int]]:
    """First cell and one behind the last of every bin, within the map."""
    step = np.float32(max(end - start + 1, 1)) / np.float32(count)
    number = np.arange(count, dtype=np.float32)
    low = np.clip(np.floor(number * step).astype(np.int64) + start, 0, cells)
    high = np.clip(np.ceil((number + 1) * step).astype(np.int64) + start, 0, cells)
    return [(int(a), int(b)) for a, b in zip(low, high)]


@max_roi_pool.form
def _(x: Any, rois: Any, *, size: Sequence[int] | int, spatial_scale: float = 1.0) -> Any:
    height, width = _check(x, rois, size)
    return record(
        "MaxRoiPool",
        [x, rois],
        (rois.shape[0], x.shape[1], height, width),
        x.dtype,
        pooled_shape=[height, width],
        spatial_scale=float(spatial_scale),
    )
