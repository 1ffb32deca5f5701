"""YoloDetectionOutput (MobileNet-YOLO)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layers._detections import below
from anylayer.layers.caffe._yolo import cells, corners, decode, detections
from anylayer.layers.caffe._yolo_v2 import YoloV2Layer
from anylayer.network import Array


@layer("YoloDetectionOutput")
class YoloDetectionOutput(YoloV2Layer):
    """Decode YOLOv2's maps and keep the boxes that do not overlap a better one, whatever the class.

    One or two maps (1, num_box * (5 + num_classes), S, S) to rows (1, 1, D, 7), where D is a dynamic size. Each
    box has one label, that of the largest softmax; its score is the objectness times that. Labels count from 1.
    Source: eric612/MobileNet-YOLO src/caffe/layers/yolo_detection_output_layer.cpp; arXiv 1612.08242.
    """

    message = "yolo_detection_output_param"
    numbers: ClassVar = {"mobilenet-yolo": 601}

    def forward(self, *maps: Array) -> Array:
        need(len(maps) in (1, 2), f"takes one or two maps, got {len(maps)}")
        boxes, labels, scores = zip(*(self.of_map(x, self.anchors) for x in maps))
        return detections(
            np.concatenate(boxes),
            np.concatenate(labels),
            np.concatenate(scores),
            nms_threshold=self.nms_threshold,
            least=below(self.confidence_threshold),
        )

    def of_map(self, x: Array, anchors: Array) -> tuple[Array, Array, Array]:
        """Return boxes (K, 4), labels (K,) and scores (K,) of one map."""
        predictions = cells(x, self.num_box, self.num_classes)
        height, width = x.shape[2:]
        need(height == width, f"needs square maps, got {height} x {width} (Caffe's layer reads both as the width)")
        boxes = corners(*decode(predictions, anchors, height, width))
        probabilities = ops.softmax(predictions[:, 5:], axis=1)
        return boxes, probabilities.argmax(axis=1) + 1, ops.sigmoid(predictions[:, 4]) * probabilities.max(axis=1)
