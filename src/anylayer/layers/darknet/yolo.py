"""Sections that decode boxes: detection (YOLOv1), region (YOLOv2), yolo and Gaussian_yolo (YOLOv3 and later)."""

from __future__ import annotations

import math

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, field, layer, need, need_shape
from anylayer.layers._detections import corners
from anylayer.layers.darknet._base import DarknetLayer
from anylayer.layers.darknet._tree import scores_of_best

_LOSS = (
    r"jitter|ignore_thresh|truth_thresh|iou_thresh|random|resize|max|focal_loss|label_smooth_eps|map|"
    r"objectness_smooth|(iou|obj|cls|delta|uc)_normalizer|iou_loss|iou_thresh_kind|counters_per_class|max_delta|"
    r"show_details|track_history_size|sim_thresh|dets_for_track|dets_for_show|track_ciou_norm|beta_nms|nms_kind|"
    r"log|sqrt|rescore|absolute|(coord|object|noobject|mask|class)_scale|bias_match"
)
"""Options of the loss, and of programs that show boxes, as a pattern."""


class Boxes(DarknetLayer):
    """A section that decodes maps of boxes."""

    ignored = _LOSS
    decodes_boxes = True
    classes: int = field(0, "int32", least=1, doc="number of classes")
    num: int = field(0, "int32", least=1, doc="number of anchors in the file")
    anchors: tuple[float, ...] = attribute("float", repeated=True, doc="widths and heights of boxes")
    thresh: float = attribute("float", 0.2, doc="scores must exceed it")
    nms_threshold: float = field(0, "float", 0.0, least=0.0, most=1.0, doc="boxes that overlap more score 0")

    def cells(self, x: Array, count: int, coords: int = 4) -> Array:
        """Return maps (N, count * (coords + 1 + classes), H, W) as (N, H, W, count, coords + 1 + classes)."""
        each = coords + 1 + self.classes
        need_shape(x, ("N", "C", "H", "W"), "input 0")
        need(
            x.shape[1] == count * each,
            f"{count} boxes of {coords} coordinates, the objectness and {self.classes} classes make "
            f"{count * each} channels, got {x.shape[1]}",
        )
        n, _, h, w = x.shape
        return x.reshape(n, count, each, h, w).transpose(0, 3, 4, 1, 2)

    def anchor_sizes(self) -> Array:
        """Return the first `num` anchors as (num, 2). Darknet ignores the others, and OpenCV refuses them."""
        count, needed = len(self.anchors), 2 * self.num
        need(count >= needed, f"num={self.num} needs {needed} anchors, got {count}")
        return np.array(self.anchors[:needed], np.float32).reshape(self.num, 2)

    def rows(self, center: Array, size: Array, objectness: Array, scores: Array) -> Array:
        """Return decoded boxes (N, H, W, A, ...) as rows [x, y, w, h, objectness, scores], (boxes, 5 + classes).

        The rows of several samples are (N, boxes, 5 + classes). center: the place within a cell; size: the size as
        a part of the image.
        """
        n, h, w, count = center.shape[:4]
        column, row = (np.arange(d).astype(np.float32) for d in (w, h))
        x = (center[..., :1] + column.reshape(1, 1, -1, 1, 1)) / np.asarray(w, np.float32)
        y = (center[..., 1:] + row.reshape(1, -1, 1, 1, 1)) / np.asarray(h, np.float32)
        scores = scores * (scores > np.float32(self.thresh)).astype(np.float32)
        table = np.concatenate([x, y, size, objectness, scores], axis=4).reshape(n, h * w * count, -1)
        if self.nms_threshold:
            table = apply_nms(table, self.thresh, self.nms_threshold)
        return table[0] if n == 1 else table


def apply_nms(table: Array, thresh: float, nms_threshold: float) -> Array:
    """Return rows of boxes (N, boxes, 5 + classes) where a score is 0 if a better box of the class overlaps."""
    boxes = corners(table[..., :2], table[..., 2:4])
    scores = table[..., 5:].transpose(0, 2, 1)
    selected, number = ops.nms(
        boxes, scores, max_per_class=table.shape[1], iou_threshold=nms_threshold, score_threshold=thresh
    )
    is_valid = (np.arange(selected.shape[0]) < number).astype(np.float32)
    marks = ops.scatter_nd(np.zeros(scores.shape, np.float32), np.maximum(selected, 0), is_valid, reduction="max")
    return np.concatenate([table[..., :5], (scores * marks).transpose(0, 2, 1)], axis=2)


class MaskedBoxes(Boxes):
    """A section that decodes the boxes of some of its anchors. Anchors are in pixels of the network's input."""

    reads_image = True
    mask: tuple[int, ...] = attribute("int32", repeated=True, doc="the anchors of this map")
    scale_x_y: float = attribute("float", 1.0, doc="factor of the place within a cell, around its center")

    def sizes(self, image: Array) -> Array:
        """Return the anchors of `mask` as parts of the network's input."""
        need(self.mask, "parameter 'mask' is missing")
        need(max(self.mask) < self.num and min(self.mask) >= 0, f"mask {self.mask} must lie in 0..{self.num - 1}")
        return self.anchor_sizes()[list(self.mask)] / np.array([image.shape[3], image.shape[2]], np.float32)

    def place(self, center: Array) -> Array:
        """Return places within cells after `scale_x_y`."""
        factor, half = np.float32(self.scale_x_y), np.float32(0.5)
        return center if factor == 1 else (center - half) * factor + half


@layer("yolo")
class Yolo(MaskedBoxes):
    """Decode the boxes of a map, as OpenCV's readNetFromDarknet does.

    A map (N, B * (5 + classes), H, W), for the B anchors of `mask`, and the network's input (N, C, H'', W'') to
    rows [x, y, w, h, objectness, score of each class] of all boxes: (H * W * B, 5 + classes), or (N, H * W * B, 5
    + classes) for N > 1 samples. x, y (center), w and h are parts of the image. A score is the objectness times
    the class; one that does not exceed `thresh` is 0, and with `nms_threshold` above 0 also one of a box that a
    better one overlaps. With `new_coords` the map holds activated values, as in AlexeyAB's fork.
    Source: opencv modules/dnn/src/layers/region_layer.cpp; AlexeyAB/darknet src/yolo_layer.c.
    """

    new_coords: bool = attribute("bool", False, doc="whether the map holds activated values")

    def forward(self, x: Array, image: Array) -> Array:
        anchors = self.sizes(image)
        v = self.cells(x, len(self.mask))
        center, size, rest = v[..., :2], v[..., 2:4], v[..., 4:]
        if self.new_coords:
            size = size * size * np.float32(4)
        else:
            center, size, rest = ops.sigmoid(center), np.exp(size), ops.sigmoid(rest)
        scores = rest[..., :1] * rest[..., 1:]
        return self.rows(self.place(center), size * anchors, rest[..., :1], scores)


@layer("Gaussian_yolo")
class GaussianYolo(MaskedBoxes):
    """Decode the boxes of a map that has an uncertainty for each coordinate (Gaussian YOLOv3, arXiv 1904.04620).

    A map (N, B * (9 + classes), H, W) and the network's input (N, C, H'', W'') to the rows of `yolo`. A score is
    the objectness times the class times 1 - the mean of the four uncertainties; one that does not exceed `thresh`
    is 0. With a `yolo_point` other than center, a cell predicts this corner of the box.
    Source: AlexeyAB/darknet src/gaussian_yolo_layer.c, get_gaussian_yolo_detections; OpenCV has no such section.
    """

    yolo_point: str = attribute(
        Enum("center", "left_top", "right_bottom"), "center", doc="the point of a box that a cell predicts"
    )

    def forward(self, x: Array, image: Array) -> Array:
        anchors = self.sizes(image)
        v = self.cells(x, len(self.mask), 8)
        active = ops.sigmoid(v)
        size = np.exp(np.stack([v[..., 4], v[..., 6]], axis=4)) * anchors
        center = self.place(np.stack([active[..., 0], active[..., 2]], axis=4))
        if self.yolo_point != "center":
            part = 0.5 if self.yolo_point == "left_top" else -0.5
            center = center + size * np.array([x.shape[3] * part, x.shape[2] * part], np.float32)
        spread = active[..., 1:2] + active[..., 3:4] + active[..., 5:6] + active[..., 7:8]
        certainty = np.float32(1) - spread * np.float32(0.25)
        objectness = active[..., 8:9]
        return self.rows(center, size, objectness, objectness * active[..., 9:] * certainty)


@layer("region")
class Region(Boxes):
    """Decode the boxes of YOLOv2's map, as OpenCV's readNetFromDarknet does.

    (N, num * (5 + classes), H, W) to rows [x, y, w, h, objectness, score of each class] of all boxes: (H * W *
    num, 5 + classes), or (N, H * W * num, 5 + classes) for N > 1 samples. x, y (center), w and h are parts of the
    image; the anchors are in cells. A score is the objectness times the softmax of the class; it is 0 if it does
    not exceed `thresh`, or if a better box overlaps by more than `nms_threshold`, which is 0.4 in OpenCV whatever
    the file says. With classfix=-1, boxes of an objectness below 0.5 have scores of 0. With a tree of classes
    (YOLO9000), a box has its objectness as the score of one class, and NMS is not applied by default.
    Source: opencv modules/dnn/src/layers/region_layer.cpp; pjreddie/darknet src/region_layer.c.
    """

    single = "detection_out"
    neutral = {"background": 0, "coords": 4}
    softmax: int = attribute("int32", 0, doc="softmax over the classes; it must be 1, as in OpenCV")
    thresh: float = attribute("float", 0.001, doc="scores must exceed it")
    nms_threshold: float = field(0, "float", 0.4, least=0.0, most=1.0, doc="boxes that overlap more score 0")
    classfix: int = attribute("int32", 0, doc="-1: boxes of a low objectness have no scores")
    tree: tuple[int, ...] = attribute("int32", repeated=True, doc="the parents of classes, from a file")

    def setup(self) -> None:
        if self.tree and not self.has("nms_threshold"):
            self.nms_threshold = 0.0

    def forward(self, x: Array) -> Array:
        need(self.tree or self.softmax == 1, f"softmax must be 1, got {self.softmax}")
        v = self.cells(x, self.num)
        h, w = x.shape[2:]
        size = np.exp(v[..., 2:4]) * (self.anchor_sizes() / np.array([w, h], np.float32))
        objectness = ops.sigmoid(v[..., 4:5])
        shown = objectness
        if self.classfix == -1:
            shown = np.where(objectness < np.float32(0.5), np.float32(0), objectness)
        shares = scores_of_best(v[..., 5:], self.tree, 0.5) if self.tree else ops.softmax(v[..., 5:], axis=4)
        return self.rows(ops.sigmoid(v[..., :2]), size, objectness, shown * shares)


@layer("detection")
class Detection(Boxes):
    """Decode the boxes of YOLOv1 (arXiv 1506.02640) to the rows of `yolo`.

    The input (N, ...) has side * side * (classes + 5 * num) values: the classes of each cell, then the objectness
    of each box, then its x, y, w, h. With `sqrt`, sizes are squared. softmax=1 is refused: Darknet's versions
    and its GPU code disagree on what it means.
    Source: pjreddie/darknet src/detection_layer.c, get_detection_detections; OpenCV has no such section.
    """

    neutral = {"softmax": 0, "coords": 4}
    ignored = rf"{_LOSS}|forced|reorg"
    side: int = field(0, "int32", 7, least=1, doc="rows and columns of cells")
    sqrt: bool = attribute("bool", False, doc="whether the values are square roots of sizes")

    def forward(self, x: Array) -> Array:
        side, count, classes = self.side, self.num, self.classes
        cells, total = side * side, math.prod(x.shape[1:])
        need(not self.anchors, "anchors have no meaning here")
        need(
            total == cells * (classes + 5 * count),
            f"{cells} cells of {classes} classes and {count} boxes of 5 values make "
            f"{cells * (classes + 5 * count)} values, got {total}",
        )
        n, flat = x.shape[0], x.reshape(x.shape[0], total)
        probabilities = flat[:, : cells * classes].reshape(n, side, side, 1, classes)
        objectness = flat[:, cells * classes : cells * (classes + count)].reshape(n, side, side, count, 1)
        boxes = flat[:, cells * (classes + count) :].reshape(n, side, side, count, 4)
        size = boxes[..., 2:] * boxes[..., 2:] if self.sqrt else boxes[..., 2:]
        return self.rows(boxes[..., :2], size, objectness, objectness * probabilities)
