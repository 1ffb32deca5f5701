"""Layers that activate the maps of YOLO in place: Region, RegionYolo and Yolo."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Layer, Message, field, layer, need
from anylayer.layers._resampling import plane_of
from anylayer.layers.caffe._axes import canonical

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


def rule(softmax: bool, background: bool) -> tuple[Scores, bool]:
    """Return how the classes are activated, and whether the objectness is not activated."""
    if softmax:
        return ("softmax with objectness", False) if background else ("softmax", False)
    return "sigmoid", background


class _Region(Layer):
    """A layer that activates a map as Darknet does."""

    message = "region_param"
    coords: int
    classes: int
    softmax: int
    background: int

    def activate_boxes(self, x: Array, boxes: int) -> Array:
        """Return the map of `boxes` boxes per cell, activated."""
        need(self.coords == 4, f"coords must be 4, got {self.coords}: with more, Darknet's CPU and GPU disagree")
        scores, raw = rule(bool(self.softmax), bool(self.background))
        return in_place(x, boxes, self.coords, self.classes, scores, raw)


@layer("Region", dialects=("ascend",))
class Region(_Region):
    """Apply Darknet's region activations, with the number of boxes in `boxes` (Ascend).

    (N, boxes * (coords + 1 + classes), H, W) to the same shape. x and y go through the logistic function, the
    other coordinates are not changed; the objectness is logistic unless `background`; the classes are softmax with
    `softmax` (over objectness and classes with `background` too), else logistic. A tree of classes is refused.
    Source: Ascend/parser parser/proto/caffe/caffe.proto (fields); pjreddie/darknet src/region_layer.c (values).
    """

    numbers = {"ascend": 156}
    distinctive = frozenset({"boxes"})
    classes: int = field(1, "int32", 20, doc="number of classes")
    coords: int = field(2, "int32", 4, doc="coordinates of a box: 4")
    boxes: int = field(3, "int32", 1, doc="boxes of a cell")
    softmax: int = field(4, "uint32", 0, doc="apply softmax to the classes")
    softmax_tree: str = field(5, "string", "", doc="a file with the tree of classes; not supported")
    background: int = field(6, "uint32", 0, doc="the objectness is the score of the background class")

    def forward(self, x: Array) -> Array:
        need(self.outputs == 1, f"Region has 1 output, got {self.outputs}; the layer with 3 outputs is Yolo")
        need(not self.softmax_tree, f"softmax_tree is not supported, got {self.softmax_tree!r}")
        return self.activate_boxes(x, self.boxes)


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
        return self.activate_boxes(x, self.num)


@layer("Region", dialects=("openvino", "model-optimizer"))
class RegionIntel(Layer):
    """Apply YOLOv2's activations, always with softmax over the classes (Intel's Caffe).

    (N, num * (coords + 1 + classes), H, W) to the same shape. x, y and the objectness go through the logistic
    function, the other coordinates are not changed, the classes are softmax.
    Source: openvinotoolkit/training_toolbox_caffe src/caffe/layers/region_layer.cpp.
    """

    message = "region_param"
    classes: int = field(2, "int32", 20, doc="number of classes")
    coords: int = field(1, "int32", 4, least=2, doc="coordinates of a box")
    num: int = field(3, "int32", 1, doc="boxes of a cell")

    def forward(self, x: Array) -> Array:
        return in_place(x, self.num, self.coords, self.classes, "softmax")


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
    coords: int = field(1, "int32", 4, least=2, doc="coordinates of a box")
    classes: int = field(2, "int32", 20, doc="number of classes")
    num: int = field(3, "int32", 1, doc="boxes of a cell, with do_softmax")
    do_softmax: bool = field(4, "bool", True, doc="softmax over the classes, and a flat output")
    anchors: tuple[float, ...] = field(5, "float", repeated=True, doc="sizes of the boxes; used after this layer")
    mask: tuple[int, ...] = field(6, "int32", repeated=True, doc="the anchors this map is for, without do_softmax")

    def forward(self, x: Array) -> Array:
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
    boxes: int = field(1, "int32", 3, least=1, doc="boxes of a cell")
    coords: int = field(2, "int32", 4, doc="coordinates of a box: 4")
    classes: int = field(3, "int32", 80, least=1, most=1024, doc="classes, 1 to 1024")
    yolo_version: str = field(4, "string", "V3", doc="V2 or V3")
    softmax: bool = field(5, "bool", False, doc="apply softmax to the classes (V2)")
    background: bool = field(6, "bool", False, doc="the objectness is the score of the background class (V2)")
    softmaxtree: bool = field(7, "bool", False, doc="not used by Ascend")
    padded: bool = field(
        100, "bool", False, doc="outputs as long as Ascend's buffers", dialects={"ascend": True}, unwritten=True
    )

    def setup(self) -> None:
        need(self.coords == 4, f"coords must be 4, got {self.coords}")
        need(self.yolo_version in ("V2", "V3"), f"yolo_version must be 'V2' or 'V3', got {self.yolo_version!r}")
        if self.yolo_version == "V3" and (self.softmax or self.background):
            self.note("softmax and background are ignored, since V3 applies the logistic function everywhere")
        if self.softmaxtree:
            self.note("softmaxtree is ignored, as on Ascend")

    def forward(self, x: Array) -> Any:
        need(self.outputs == 3, f"Yolo has three outputs (coordinates, objectness, classes), got {self.outputs}")
        v = split(x, self.boxes, 4, self.classes)
        is_v2 = self.yolo_version == "V2"
        scores, raw = rule(is_v2 and self.softmax, is_v2 and self.background)
        position, size, objectness, classes = activate(v, 4, scores, raw)
        n, pixels = x.shape[0], v.shape[3]
        slots = np.concatenate([position, size[:, :, 1:], size[:, :, :1]], axis=2)
        outputs = (
            slots.swapaxes(1, 2).reshape(n, 4 * self.boxes, pixels),
            objectness.reshape(n, self.boxes * pixels),
            classes.swapaxes(1, 2).reshape(n, self.classes, self.boxes * pixels),
        )
        return tuple(map(_pad_boxes, outputs)) if self.padded else outputs


def _pad_boxes(x: Array) -> Array:
    n = x.shape[-1]
    length = -(-(2 * n + 32) // 32) * 32 // 2
    return np.pad(x, [(0, 0)] * (len(x.shape) - 1) + [(0, length - n)])
