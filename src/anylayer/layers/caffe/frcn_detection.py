"""FrcnDetection (Sophgo)."""

from __future__ import annotations

from math import prod
from typing import Any, ClassVar

import numpy as np

from anylayer.layer import Layer, field, layer, need, samples
from anylayer.layers._detections import kept_pairwise, overlaps_of_pixels
from anylayer.network import Array


@layer("FrcnDetection")
class FrcnDetection(Layer):
    """Decode the boxes of Faster R-CNN to rows [x1, y1, x2, y2, class, score].

    Offsets (R, 4 * class_num) and probabilities (R, class_num), in any shape, and regions (1, 1, R, 5) to (1, 1,
    keep_topk, 6), filled up with zeros. Class 0 is the background. Each other class of a region is a box where
    its probability exceeds obj_threshold; see `kept_pairwise` for those that are dropped. The rows are sorted by
    region and class, and keep_topk cuts in this order. The layer runs in Python, since it compares pairs one after
    the other. Sophgo's own Caffe often crashes where several classes of a region are boxes.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    message = "frcn_detection_param"
    samples: ClassVar = {1: samples.scores}
    numbers: ClassVar = {"": 305, "sophgo": 305}
    nms_threshold: float = field(1, "float", doc="boxes whose IoU with a better one exceeds it are dropped")
    obj_threshold: float = field(2, "float", doc="probabilities must exceed it")
    keep_topk: int = field(3, "uint32", doc="number of rows")
    class_num: int = field(4, "uint32", doc="number of classes, the background included")

    def setup(self) -> None:
        need(self.class_num > 1, f"class_num must be at least 2, got {self.class_num}")
        need(self.keep_topk > 0, f"keep_topk must be at least 1, got {self.keep_topk}")

    def forward(self, deltas: Array, scores: Array, rois: Array) -> Any:
        shape, c = tuple(rois.shape), self.class_num
        need(
            len(shape) == 4 and shape[:2] == (1, 1) and shape[3] == 5,
            f"the regions (input 2) must be of shape (1, 1, R, 5), got {shape}; how batches are cut is not known",
        )
        r = shape[2]
        for what, x, each in (("offsets (input 0)", deltas, 4 * c), ("probabilities (input 1)", scores, c)):
            need(
                prod(x.shape) == r * each,
                f"{r} regions and class_num={c} need {r * each} {what}, got shape {tuple(x.shape)}",
            )
        boxes, scores = _decode(deltas.reshape(r, c, 4), rois.reshape(r, 5)[:, 1:]), scores.reshape(r, c)
        region, label = np.nonzero((scores > np.float32(self.obj_threshold)) & (np.arange(c) > 0))
        box, score = boxes[region, label], scores[region, label]
        survivors = np.flatnonzero(kept_pairwise(box, label, score, self.nms_threshold, overlaps_of_pixels))[
            : self.keep_topk
        ]
        table = np.zeros((1, 1, self.keep_topk, 6), np.float32)
        table[0, 0, : len(survivors)] = np.concatenate([box, label[:, None], score[:, None]], axis=1)[survivors]
        return table


def _decode(deltas: Array, rois: Array) -> Array:
    """Return boxes (R, C, 4) for offsets (R, C, 4) from regions (R, 4), whose ends are included."""
    size = rois[:, 2:] - rois[:, :2] + np.float32(1)
    centre = deltas[..., :2] * size[:, None] + (rois[:, :2] + size * np.float32(0.5))[:, None]
    half = np.exp(deltas[..., 2:]) * size[:, None] * np.float32(0.5)
    return np.concatenate([centre - half, centre + half], axis=2)
