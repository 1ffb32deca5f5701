"""What the YOLO detection layers share: boxes of a grid of cells, and one NMS over all of them."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.errors import need
from anylayer.layers._detections import below, for_overlap, output, rows
from anylayer.network import Array


def cells(x: Array, anchors: int, classes: int) -> Array:
    """Return the predictions (H * W * anchors, 5 + classes) of a map (1, anchors * (5 + classes), H, W).

    They are sorted by row, column and anchor. Each is tx, ty, tw, th, the objectness and one value per class.
    """
    need(len(x.shape) == 4, f"needs an input (1, C, H, W), got shape {tuple(x.shape)}")
    n, c, h, w = x.shape
    need(n == 1, f"takes one image, got a batch of {n} (Caffe's layer would apply NMS across images)")
    channels = anchors * (5 + classes)
    need(c == channels, f"{anchors} boxes of 5 + num_classes={classes} values need {channels} channels, got {c}")
    return x.reshape(anchors, 5 + classes, h, w).transpose(2, 3, 0, 1).reshape(-1, 5 + classes)


def decode(predictions: Array, anchors: Array, height: int, width: int, scale: int = 1) -> tuple[Array, Array]:
    """Return centers and sizes (..., K, 2) of the boxes, x before y, relative to the image.

    `predictions` are (..., K, 5 + classes), as those of `cells`.
    `anchors` (A, 2) are width and height in cells, or in pixels when a cell has `scale` of them.
    """
    grid = height, width, len(anchors)
    column = np.broadcast_to(np.arange(width, dtype=np.float32)[:, None], grid)
    row = np.broadcast_to(np.arange(height, dtype=np.float32)[:, None, None], grid)
    corner = np.stack([column, row], axis=-1).reshape(-1, 2)
    cells_wide = np.array([width, height], np.float32)
    sizes = np.broadcast_to(np.asarray(anchors, np.float32), (*grid, 2)).reshape(-1, 2)
    centre = (corner + ops.sigmoid(predictions[..., :2])) / cells_wide
    return centre, np.exp(predictions[..., 2:4]) * sizes / (cells_wide * np.float32(scale))


def corners(centre: Array, size: Array) -> Array:
    """Return boxes (..., 4) x1 y1 x2 y2."""
    half = size * np.float32(0.5)
    return np.concatenate([centre - half, centre + half], axis=-1)


def suppress(boxes: Array, order: Array, threshold: float, least: float) -> tuple[Array, Array]:
    """Return the indices of the boxes (K, 4) that NMS keeps, best first, and their number.

    A box is dropped when its IoU with a kept one of higher `order` (K,) is `threshold` or more. Only boxes whose
    `order` exceeds `least` take part. The indices are padded to K.
    """
    selected, count = ops.nms(
        for_overlap(boxes)[None],
        order[None, None],
        max_per_class=boxes.shape[0],
        iou_threshold=below(threshold),
        score_threshold=least,
    )
    return np.maximum(selected[:, 2], 0), count


def detections(boxes: Array, label: Array, score: Array, *, nms_threshold: float, least: float) -> Array:
    """Return rows [0, label, score, x1, y1, x2, y2] (1, 1, D, 7) of the boxes that NMS keeps, best first.

    NMS ignores the label. Of equal scores the earlier is better, which Caffe's std::sort leaves open.
    """
    index, count = suppress(boxes, score, nms_threshold, least)
    table = rows(np.zeros(boxes.shape[0], np.float32), label[index], score[index], boxes[index])
    return output(table, count, 1)


def check(num_classes: int, nms_threshold: float, anchors: int, biases: tuple[float, ...]) -> None:
    """Check the fields that all these layers have."""
    need(num_classes > 0, f"num_classes must be at least 1, got {num_classes}")
    need(anchors > 0, f"num_box must be at least 1, got {anchors}")
    need(0 < nms_threshold < 1, f"nms_threshold must lie between 0 and 1, got {nms_threshold:g}")
    need(len(biases) % 2 == 0, f"biases must be pairs of width and height, got {len(biases)} values")
