"""Region (YOLOv2): three parameter messages of one name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._regions import Scores, in_place
from anylayer.network import Array


class _Region(Layer):
    message = "region_param"

    def rule(self, softmax: bool, background: bool) -> tuple[Scores, bool]:
        """Return how the classes are activated, and whether the objectness is not activated."""
        if softmax:
            return ("softmax with objectness", False) if background else ("softmax", False)
        return "sigmoid", background


@layer("Region", dialects=("ascend",))
class Region(_Region):
    """Apply Darknet's region activations, with the number of boxes in `boxes` (Ascend).

    (N, boxes * (coords + 1 + classes), H, W) to the same shape. x and y go through the logistic function, the
    other coordinates are not changed; the objectness is logistic unless `background`; the classes are softmax with
    `softmax` (over objectness and classes with `background` too), else logistic. A tree of classes is refused.
    Source: Ascend/parser parser/proto/caffe/caffe.proto (fields); pjreddie/darknet src/region_layer.c (values).
    """

    numbers = {"ascend": 156}
    classes: int = field(1, "int32", 20, doc="number of classes")
    coords: int = field(2, "int32", 4, doc="coordinates of a box: 4")
    boxes: int = field(3, "int32", 1, doc="boxes of a cell")
    softmax: int = field(4, "uint32", 0, doc="apply softmax to the classes")
    softmax_tree: str = field(5, "string", "", doc="a file with the tree of classes; not supported")
    background: int = field(6, "uint32", 0, doc="the objectness is the score of the background class")

    @classmethod
    def fits(cls, values: Mapping[str, Any], inputs: int, outputs: int) -> bool:
        return "boxes" in values and super().fits(values, inputs, outputs)

    def forward(self, x: Array) -> Array:
        need(self.outputs == 1, f"Region has 1 output, got {self.outputs}; the layer with 3 outputs is Yolo")
        need(not self.softmax_tree, f"softmax_tree is not supported, got {self.softmax_tree!r}")
        need(self.coords == 4, f"coords must be 4, got {self.coords}: with more, Darknet's CPU and GPU disagree")
        scores, raw = self.rule(bool(self.softmax), bool(self.background))
        return in_place(x, self.boxes, self.coords, self.classes, scores, raw)


@layer("Region", dialects=("darknet",))
class RegionDarknet(_Region):
    """Apply Darknet's region activations, with the number of boxes in `num` (Darknet).

    (N, num * (coords + 1 + classes), H, W) to the same shape, as Ascend's layer.
    Source: pjreddie/darknet src/region_layer.c.
    """

    classes: int = field(1, "int32", 20, doc="number of classes")
    coords: int = field(2, "int32", 4, doc="coordinates of a box: 4")
    num: int = field(3, "int32", 1, doc="boxes of a cell")
    softmax: int = field(4, "uint32", 0, doc="apply softmax to the classes")
    background: int = field(5, "uint32", 0, doc="the objectness is the score of the background class")

    def forward(self, x: Array) -> Array:
        need(self.coords == 4, f"coords must be 4, got {self.coords}: with more, Darknet's CPU and GPU disagree")
        scores, raw = self.rule(bool(self.softmax), bool(self.background))
        return in_place(x, self.num, self.coords, self.classes, scores, raw)


@layer("Region", dialects=("openvino", "model-optimizer"))
class RegionIntel(_Region):
    """Apply YOLOv2's activations, always with softmax over the classes (Intel's Caffe).

    (N, num * (coords + 1 + classes), H, W) to the same shape. x, y and the objectness go through the logistic
    function, the other coordinates are not changed, the classes are softmax.
    Source: openvinotoolkit/training_toolbox_caffe src/caffe/layers/region_layer.cpp.
    """

    classes: int = field(2, "int32", 20, doc="number of classes")
    coords: int = field(1, "int32", 4, doc="coordinates of a box")
    num: int = field(3, "int32", 1, doc="boxes of a cell")

    def forward(self, x: Array) -> Array:
        need(self.coords >= 2, f"coords must be at least 2, got {self.coords}")
        return in_place(x, self.num, self.coords, self.classes, "softmax")
