"""What the detection layers share: Caffe's boxes without area, the rows they write, the rows of no detection."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops

LOWEST = np.float32(np.finfo(np.float32).min)
"""Caffe's -FLT_MAX: below every score that counts."""


def below(value: float) -> float:
    """The float32 before `value`: for finite scores, `s >= value` is `s > below(value)`."""
    return float(np.nextafter(np.float32(value), np.float32(-np.inf)))


def for_overlap(boxes: Any, extra: float = 0.0) -> Any:
    """`boxes` (..., 4) as ops.nms must see them so that overlaps come out as Caffe's.

    A box whose end lies before its start has no area in Caffe's bbox_util, hence no overlap, where ONNX would
    swap its corners: it becomes a point. `extra` is what Caffe adds to a box's width and height to have its
    size in pixels: ends move by it, and so intersections grow by it too. (Boxes with a gap of less than
    `extra` then touch, where Caffe finds them apart: for `extra` 1 that exceeds a threshold of 0.5 only
    between boxes narrower than one pixel.)
    """
    ordered = (boxes[..., 2:] >= boxes[..., :2]).all(axis=-1, keepdims=True)
    wider = boxes + np.array([0, 0, extra, extra], np.float32) if extra else boxes
    return np.where(ordered, wider, np.float32(0))


def rows(image: Any, label: Any, score: Any, boxes: Any) -> Any:
    """(K, 7) rows [image, label, score, 4 box values] in float32 of columns (K,) and boxes (K, 4)."""
    columns = [np.expand_dims(c.astype(np.float32), 1) for c in (image, label, score)]
    return np.concatenate([*columns, boxes], axis=1)


def output(table: Any, count: Any, images: int) -> Any:
    """(1, 1, D, 7): the first `count` rows of `table` (K, 7), K >= images.

    Where `count` is 0 it is one row [i, -1, -1, -1, -1, -1, -1] an image i, as SSD writes it
    (detection_output_layer.cpp, "Couldn't find any detections").
    """
    size = table.shape[0]
    none = np.full((size, 7), -1, np.float32)
    none[:images, 0] = np.arange(images)
    filled = np.where((np.arange(size) < count)[:, None], table, none)
    return ops.head(filled, np.where(count > 0, count, np.int64(images)))[None, None]
