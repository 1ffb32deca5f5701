"""What the YOLO output layers share: a map with `boxes` x (coords, objectness, classes) channels, activated."""

from __future__ import annotations

from typing import Literal

import numpy as np

from anylayer import ops
from anylayer.errors import need
from anylayer.layers.caffe._resampling import plane_of
from anylayer.network import Array

Scores = Literal["sigmoid", "softmax", "softmax with objectness"]


def split(x: Array, boxes: int, coords: int, classes: int) -> Array:
    """Return (N, C, H, W) as (N, boxes, coords + 1 + classes, H * W)."""
    h, w = plane_of(x)
    each = coords + 1 + classes
    need(
        x.shape[1] == boxes * each,
        f"{boxes} boxes of {coords} coordinates, the objectness and {classes} classes make {boxes * each} "
        f"channels, got {x.shape[1]}",
    )
    return x.reshape(x.shape[0], boxes, each, h * w)


def activate(v: Array, coords: int, scores: Scores, raw_objectness: bool) -> tuple[Array, Array, Array, Array]:
    """Return the parts of a split map, activated: x and y, other coordinates, objectness, classes.

    The other coordinates are not changed.
    """
    position, size = ops.sigmoid(v[:, :, :2]), v[:, :, 2:coords]
    if scores == "softmax with objectness":
        joint = ops.softmax(v[:, :, coords:], axis=2)
        return position, size, joint[:, :, :1], joint[:, :, 1:]
    objectness = v[:, :, coords : coords + 1]
    if not raw_objectness:
        objectness = ops.sigmoid(objectness)
    classes = v[:, :, coords + 1 :]
    return (
        position,
        size,
        objectness,
        ops.softmax(classes, axis=2) if scores == "softmax" else ops.sigmoid(classes),
    )


def in_place(
    x: Array, boxes: int, coords: int, classes: int, scores: Scores, raw_objectness: bool = False
) -> Array:
    """Return the map with its values activated, in the same shape."""
    parts = activate(split(x, boxes, coords, classes), coords, scores, raw_objectness)
    return np.concatenate(parts, axis=2).reshape(x.shape)
