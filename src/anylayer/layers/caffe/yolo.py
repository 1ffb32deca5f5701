"""Yolo (Ascend)."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._regions import Scores, activate, split
from anylayer.network import Array


@layer("Yolo")
class Yolo(Layer):
    """Apply YOLO's activations, with coordinates, objectness and classes as three outputs (Ascend).

    (N, boxes * (4 + 1 + classes), H, W), per box x, y, w, h, objectness, classes. Outputs: coordinates (N, 4 *
    boxes, P(H * W)), where row slot * boxes + box has the slots x, y, **h, w**; objectness (N, P(boxes * H * W)),
    where box * H * W + pixel is the index; classes (N, classes, P(boxes * H * W)). P(n) = n; with `padded`, the
    length of Ascend's buffers, round_up(2 * n + 32, 32) / 2, padded with zeros (Ascend does not set them). x and y
    go through the logistic function, w and h are not changed. V2: the objectness is logistic unless `background`,
    the classes are softmax with `softmax`, else logistic; with both, one softmax over both. V3: all are logistic,
    softmax and background are ignored. `padded` is a field of this project, which no file contains: true in
    dialect ascend unless the file has `padded: false`, else false.
    Source: CANN ops/built-in/tbe/impl/yolo.py, caffe_plugin/yolo_plugin.cc, op_proto/inc/nn_detect_ops.h.
    """

    message = "yolo_param"
    numbers = {"": 199, "ascend": 199}
    boxes: int = field(1, "int32", 3, doc="boxes of a cell")
    coords: int = field(2, "int32", 4, doc="coordinates of a box: 4")
    classes: int = field(3, "int32", 80, doc="classes, 1 to 1024")
    yolo_version: str = field(4, "string", "V3", doc="V2 or V3")
    softmax: bool = field(5, "bool", False, doc="apply softmax to the classes (V2)")
    background: bool = field(6, "bool", False, doc="the objectness is the score of the background class (V2)")
    softmaxtree: bool = field(7, "bool", False, doc="not used by Ascend")
    padded: bool = field(
        100, "bool", False, doc="outputs as long as Ascend's buffers", dialects={"ascend": True}, unwritten=True
    )

    def setup(self) -> None:
        need(self.boxes >= 1, f"boxes must be at least 1, got {self.boxes}")
        need(self.coords == 4, f"coords must be 4, got {self.coords}")
        need(1 <= self.classes <= 1024, f"classes must lie in 1..1024, got {self.classes}")
        need(self.yolo_version in ("V2", "V3"), f"yolo_version must be 'V2' or 'V3', got {self.yolo_version!r}")
        if self.yolo_version == "V3" and (self.softmax or self.background):
            self.note("softmax and background are ignored, since V3 applies the logistic function everywhere")
        if self.softmaxtree:
            self.note("softmaxtree is ignored, as on Ascend")

    def forward(self, x: Array) -> Any:
        need(self.outputs == 3, f"Yolo has three outputs (coordinates, objectness, classes), got {self.outputs}")
        v = split(x, self.boxes, 4, self.classes)
        scores, raw = self._rule()
        position, size, objectness, classes = activate(v, 4, scores, raw)
        n, pixels = x.shape[0], v.shape[3]
        slots = np.concatenate([position, size[:, :, 1:], size[:, :, :1]], axis=2)
        outputs = (
            slots.swapaxes(1, 2).reshape(n, 4 * self.boxes, pixels),
            objectness.reshape(n, self.boxes * pixels),
            classes.swapaxes(1, 2).reshape(n, self.classes, self.boxes * pixels),
        )
        return tuple(map(_pad_boxes, outputs)) if self.padded else outputs

    def _rule(self) -> tuple[Scores, bool]:
        """Return how the classes are activated, and whether the objectness is not activated."""
        if self.yolo_version == "V3":
            return "sigmoid", False
        if self.softmax:
            return ("softmax with objectness", False) if self.background else ("softmax", False)
        return "sigmoid", self.background


def _pad_boxes(x: Array) -> Array:
    n = x.shape[-1]
    length = -(-(2 * n + 32) // 32) * 32 // 2
    return np.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, length - n)])
