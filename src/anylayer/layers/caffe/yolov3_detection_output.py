"""Yolov3DetectionOutput (MobileNet-YOLO)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._yolo import cells, check, corners, decode, detections
from anylayer.network import Array


@layer("Yolov3DetectionOutput")
class Yolov3DetectionOutput(Layer):
    """Decode YOLOv3's maps and keep the boxes that do not overlap a better one, whatever the class.

    Maps (1, num_box * (5 + num_classes), H, W) to rows (1, 1, D, 7), where D is a dynamic size. Caffe enters a box
    once for every class whose score (objectness times class) exceeds the threshold. NMS ignores classes, so only
    the best class of a box can remain. Labels count from 1.
    Source: eric612/MobileNet-YOLO src/caffe/layers/yolov3_detection_output_layer.cpp; arXiv 1804.02767.
    """

    message = "yolov3_detection_output_param"
    numbers: ClassVar = {"mobilenet-yolo": 602, "ncnn": 603}
    num_classes: int = field(1, "uint32", 20, doc="classes scored")
    num_box: int = field(2, "uint32", 3, doc="boxes per cell")
    confidence_threshold: float = field(3, "float", 0.01, doc="scores must exceed it")
    nms_threshold: float = field(4, "float", 0.45, doc="boxes whose IoU with a better one reaches it are dropped")
    biases: tuple[float, ...] = field(5, "float", repeated=True, doc="width and height of each box, in pixels")
    anchors_scale: tuple[int, ...] = field(6, "uint32", repeated=True, doc="pixels per cell, for each map")
    mask_group_num: int = field(7, "uint32", 2, doc="number of maps")
    mask: tuple[int, ...] = field(
        8, "uint32", repeated=True, doc="indices of the biases that the boxes of each map use"
    )

    def setup(self) -> None:
        need(self.has("num_classes"), "parameter 'num_classes' is missing")
        check(self.num_classes, self.nms_threshold, self.num_box, self.biases)
        groups = self.mask_group_num
        need(groups > 0, f"mask_group_num must be at least 1, got {groups}")
        need(
            len(self.mask) == groups * self.num_box,
            f"mask_group_num={groups} groups of num_box={self.num_box} need {groups * self.num_box} mask values, "
            f"got {len(self.mask)}",
        )
        need(
            all(2 * m + 1 < len(self.biases) for m in self.mask),
            f"mask {max(self.mask)} needs {2 * max(self.mask) + 2} biases, got {len(self.biases)}",
        )
        need(
            len(self.anchors_scale) >= groups,
            f"mask_group_num={groups} needs as many anchors_scale, got {len(self.anchors_scale)}",
        )

    def forward(self, *maps: Array) -> Array:
        need(
            len(maps) == self.mask_group_num,
            f"mask_group_num={self.mask_group_num} needs as many inputs, got {len(maps)}",
        )
        boxes, labels, scores = zip(*(self.of_map(t, x) for t, x in enumerate(maps)))
        return detections(
            np.concatenate(boxes),
            np.concatenate(labels),
            np.concatenate(scores),
            nms_threshold=self.nms_threshold,
            least=self.confidence_threshold,
        )

    def of_map(self, t: int, x: Array) -> tuple[Array, Array, Array]:
        """Return boxes (K, 4), labels (K,) and scores (K,) of map `t`."""
        used = self.mask[t * self.num_box : (t + 1) * self.num_box]
        anchors = np.array(self.biases, np.float32).reshape(-1, 2)[list(used)]
        predictions = cells(x, self.num_box, self.num_classes)
        boxes = corners(*decode(predictions, anchors, x.shape[2], x.shape[3], self.anchors_scale[t]))
        scores = ops.sigmoid(predictions[:, 5:]) * ops.sigmoid(predictions[:, 4:5])
        return boxes, scores.argmax(axis=1) + 1, scores.max(axis=1)
