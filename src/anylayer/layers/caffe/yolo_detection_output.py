"""YoloDetectionOutput (MobileNet-YOLO)."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need
from anylayer.layers._detections import below
from anylayer.layers.caffe._yolo import cells, check, corners, decode, detections
from anylayer.network import Array


@layer("YoloDetectionOutput")
class YoloDetectionOutput(Layer):
    """Decode YOLOv2's maps and keep the boxes that do not overlap a better one, whatever the class.

    One or two maps (1, num_box * (5 + num_classes), S, S) to rows (1, 1, D, 7), where D is a dynamic size. Each
    box has one label, that of the largest softmax; its score is the objectness times that. Labels count from 1.
    Source: eric612/MobileNet-YOLO src/caffe/layers/yolo_detection_output_layer.cpp; arXiv 1612.08242.
    """

    message = "yolo_detection_output_param"
    numbers: ClassVar = {"mobilenet-yolo": 601}
    side: int = field(1, "uint32", 13, doc="not used, since the map has its size")
    num_classes: int = field(2, "uint32", 20, doc="classes scored")
    num_box: int = field(3, "uint32", 5, doc="boxes per cell")
    coords: int = field(4, "uint32", 4, doc="values of a box; always 4")
    confidence_threshold: float = field(5, "float", 0.01, doc="scores must reach it")
    nms_threshold: float = field(6, "float", 0.45, doc="boxes whose IoU with a better one reaches it are dropped")
    biases: tuple[float, ...] = field(7, "float", repeated=True, doc="width and height of each box, in cells")
    label_map_file: str = field(8, "string", "", doc="names of the labels, for drawing; not read here")

    def setup(self) -> None:
        need(self.has("num_classes"), "parameter 'num_classes' is missing")
        need(self.coords == 4, f"coords must be 4, got {self.coords}")
        check(self.num_classes, self.nms_threshold, self.num_box, self.biases)
        need(
            len(self.biases) >= 2 * self.num_box,
            f"num_box={self.num_box} needs {2 * self.num_box} biases, got {len(self.biases)}",
        )

    def forward(self, *maps: Array) -> Any:
        need(len(maps) in (1, 2), f"takes one or two maps, got {len(maps)}")
        anchors = np.array(self.biases, np.float32)[: 2 * self.num_box].reshape(-1, 2)
        boxes, labels, scores = zip(*(self.of_map(x, anchors) for x in maps))
        return detections(
            np.concatenate(boxes),
            np.concatenate(labels),
            np.concatenate(scores),
            nms_threshold=self.nms_threshold,
            least=below(self.confidence_threshold),
        )

    def of_map(self, x: Any, anchors: Any) -> tuple[Any, Any, Any]:
        """Return boxes (K, 4), labels (K,) and scores (K,) of one map."""
        predictions = cells(x, self.num_box, self.num_classes)
        height, width = x.shape[2:]
        need(height == width, f"needs square maps, got {height} x {width} (Caffe's layer reads both as the width)")
        boxes = corners(*decode(predictions, anchors, height, width))
        probabilities = ops.softmax(predictions[:, 5:], axis=1)
        return boxes, probabilities.argmax(axis=1) + 1, ops.sigmoid(predictions[:, 4]) * probabilities.max(axis=1)
