"""What the layers share that decode the maps of YOLOv2 with the anchors of the file."""

from __future__ import annotations

import numpy as np

from anylayer.layer import Layer, field, need
from anylayer.layers.caffe._yolo import check
from anylayer.network import Array


class YoloV2Layer(Layer):
    """A layer that decodes maps (1, num_box * (5 + num_classes), S, S) of YOLOv2."""

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

    @property
    def anchors(self) -> Array:
        """The width and height (num_box, 2) of the boxes, in cells."""
        return np.array(self.biases, np.float32)[: 2 * self.num_box].reshape(-1, 2)
