"""RegionYolo (Intel's Caffe, OpenVINO)."""

from __future__ import annotations

import math

from anylayer.layer import Layer, Message, field, layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.layers.caffe._regions import in_place
from anylayer.network import Array


class FlattenParameter(Message):
    """The axes that are flattened."""

    axis: int = field(1, "int32", 1, doc="the first axis")
    end_axis: int = field(2, "int32", -1, doc="the last axis")


@layer("RegionYolo")
class RegionYolo(Layer):
    """Apply YOLO's activations: softmax over classes and a flat output with `do_softmax`, else logistic.

    (N, boxes * (coords + 1 + classes), H, W) to (N, C * H * W) with `do_softmax`, where axis and end_axis of
    flatten_param state the flattened axes, else to the same shape. boxes is `num` with do_softmax, else the length
    of `mask`. x, y and the objectness go through the logistic function, the other coordinates are not changed, and
    `anchors` have no effect.
    Source: opencv/dldt 2018 ext_region_yolo.cpp, extensions/ops/regionyolo.py; OpenVINO RegionYolo-1;
    openvinotoolkit/training_toolbox_caffe src/caffe/layers/region_yolo_layer.cpp.
    """

    message = "region_yolo_param"
    numbers = {"": 214, "model-optimizer": 214}
    also = {"flatten_param": FlattenParameter}
    flatten_param: FlattenParameter
    coords: int = field(1, "int32", 4, doc="coordinates of a box")
    classes: int = field(2, "int32", 20, doc="number of classes")
    num: int = field(3, "int32", 1, doc="boxes of a cell, with do_softmax")
    do_softmax: bool = field(4, "bool", True, doc="softmax over the classes, and a flat output")
    anchors: tuple[float, ...] = field(5, "float", repeated=True, doc="sizes of the boxes; used after this layer")
    mask: tuple[int, ...] = field(6, "int32", repeated=True, doc="the anchors this map is for, without do_softmax")

    def forward(self, x: Array) -> Array:
        need(self.coords >= 2, f"coords must be at least 2, got {self.coords}")
        need(
            self.do_softmax or self.mask,
            "parameter 'mask' is missing: without do_softmax it gives the number of boxes per cell",
        )
        boxes = self.num if self.do_softmax else len(self.mask)
        y = in_place(x, boxes, self.coords, self.classes, "softmax" if self.do_softmax else "sigmoid")
        if not self.do_softmax:
            return y
        first = canonical(self.flatten_param.axis, x, "flatten_param's axis")
        last = canonical(self.flatten_param.end_axis, x, "flatten_param's end_axis")
        need(first <= last, f"flatten_param's axis {first} must not lie after its end_axis {last}")
        joined = math.prod(x.shape[first : last + 1])
        return y.reshape(*x.shape[:first], joined, *x.shape[last + 1 :])
