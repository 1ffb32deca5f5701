"""DecodeBBox (Cascade R-CNN)."""

from __future__ import annotations

from math import prod
from typing import ClassVar

import numpy as np

from anylayer.layer import Layer, Message, field, layer, need
from anylayer.layers.caffe._bbox_reg import without_normalization
from anylayer.layers.caffe._messages import is_training
from anylayer.network import Array


class DecodeBBoxParameter(Message):
    """DecodeBBoxParameter of MS-CNN, for training."""

    gt_iou_thr: float = field(1, "float", 1.0, doc="for training")


@layer("DecodeBBox")
class DecodeBBox(Layer):
    """Move regions by the offsets that a stage of Cascade R-CNN predicts for the object (arXiv 1712.00726).

    Offsets (R, 8) of background and object, and regions [image, x1, y1, x2, y2] (R, 5) to regions (R, 5, 1, 1).
    Boxes are in pixels, with their ends included.
    Source: zhaoweicai/mscnn src/caffe/layers/decode_bbox_layer.cpp, src/caffe/util/math_functions.cpp.
    """

    message = "bbox_reg_param"
    numbers: ClassVar = {"": 154}
    also: ClassVar = {"decode_bbox_param": DecodeBBoxParameter}
    bbox_mean: tuple[float, ...] = field(1, "float", repeated=True, doc="means of x, y, width, height")
    bbox_std: tuple[float, ...] = field(2, "float", repeated=True, doc="standard deviations of them; positive")

    def setup(self) -> None:
        need(not is_training(self), "is supported in phase TEST only, since it drops boxes in training")
        need(all(s > 0 for s in self.bbox_std), f"bbox_std must be positive, got {list(self.bbox_std)}")

    def forward(self, moves: Array, regions: Array) -> Array:
        for what, x, columns in (("moves", moves, 8), ("regions", regions, 5)):
            need(
                len(x.shape) >= 2 and x.shape[1] == columns and prod(x.shape[2:]) == 1,
                f"{what} must be of shape (R, {columns}), got {tuple(x.shape)}",
            )
        need(
            moves.shape[0] == regions.shape[0],
            f"there are box offsets for {moves.shape[0]} regions, expected {regions.shape[0]}",
        )
        count = regions.shape[0]
        moves, regions = moves.reshape(count, 8)[:, 4:], regions.reshape(count, 5)
        moves = without_normalization(moves, self.bbox_mean, self.bbox_std)
        start, end = regions[:, 1:3], regions[:, 3:5]
        sides, centre = end - start + np.float32(1), np.float32(0.5) * (end + start)
        size = sides * np.exp(moves[:, 2:])
        start = moves[:, :2] * sides + centre - (size - np.float32(1)) / np.float32(2)
        boxes = [regions[:, :1], start, start + size - np.float32(1)]
        return np.concatenate(boxes, axis=1)[:, :, None, None]
