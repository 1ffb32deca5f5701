"""Layers that decode the maps of YOLO and apply NMS to the boxes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Layer, field, layer, need
from anylayer.layers._detections import below, corners, keep_best, kept_pairwise, output, rows
from anylayer.layers._resampling import plane_of


def cells(x: Array, anchors: int, classes: int) -> Array:
    """Return the predictions (H * W * anchors, 5 + classes) of a map (1, anchors * (5 + classes), H, W).

    They are sorted by row, column and anchor. Each is tx, ty, tw, th, the objectness and one value per class.
    """
    need(len(x.shape) == 4, f"needs an input (1, C, H, W), got shape {tuple(x.shape)}")
    n, c, h, w = x.shape
    need(n == 1, f"takes one image, got a batch of {n} (Caffe's layer would apply NMS across images)")
    channels = anchors * (5 + classes)
    need(c == channels, f"{anchors} boxes of 5 + num_classes={classes} values need {channels} channels, got {c}")
    return x.reshape(anchors, 5 + classes, h, w).transpose(2, 3, 0, 1).reshape(-1, 5 + classes)


def decode(predictions: Array, anchors: Array, height: int, width: int, scale: int = 1) -> tuple[Array, Array]:
    """Return centers and sizes (..., K, 2) of the boxes, x before y, relative to the image.

    `predictions` are (..., K, 5 + classes), as those of `cells`.
    `anchors` (A, 2) are width and height in cells, or in pixels when a cell has `scale` of them.
    """
    grid = height, width, len(anchors)
    column = np.broadcast_to(np.arange(width, dtype=np.float32)[:, None], grid)
    row = np.broadcast_to(np.arange(height, dtype=np.float32)[:, None, None], grid)
    corner = np.stack([column, row], axis=-1).reshape(-1, 2)
    cells_wide = np.array([width, height], np.float32)
    sizes = np.broadcast_to(np.asarray(anchors, np.float32), (*grid, 2)).reshape(-1, 2)
    centre = (corner + ops.sigmoid(predictions[..., :2])) / cells_wide
    return centre, np.exp(predictions[..., 2:4]) * sizes / (cells_wide * np.float32(scale))


def suppress(boxes: Array, order: Array, threshold: float, least: float) -> tuple[Array, Array]:
    """Return the indices of the boxes (K, 4) that NMS keeps, best first, and their number.

    A box is dropped when its IoU with a kept one of higher `order` (K,) is `threshold` or more. Only boxes whose
    `order` exceeds `least` take part. The indices are padded to K.
    """
    *_, index, count = keep_best(boxes[None], order[None, None], boxes.shape[0], below(threshold), least)
    return index, count


def detections(maps: Iterable[tuple[Array, Array, Array]], *, nms_threshold: float, least: float) -> Array:
    """Return rows [0, label, score, x1, y1, x2, y2] (1, 1, D, 7) of the boxes that NMS keeps, best first.

    `maps` are the boxes (K, 4), labels (K,) and scores (K,) of each map. NMS ignores the label. Of equal scores
    the earlier is better, which Caffe's std::sort leaves open.
    """
    boxes, label, score = (np.concatenate(columns) for columns in zip(*maps))
    index, count = suppress(boxes, score, nms_threshold, least)
    table = rows(np.zeros(boxes.shape[0], np.float32), label[index], score[index], boxes[index])
    return output(table, count, 1)


def check(nms_threshold: float, biases: tuple[float, ...]) -> None:
    """Check the fields that all these layers have."""
    need(0 < nms_threshold < 1, f"nms_threshold must lie between 0 and 1, got {nms_threshold:g}")
    need(len(biases) % 2 == 0, f"biases must be pairs of width and height, got {len(biases)} values")


class YoloV2Layer(Layer):
    """A layer that decodes maps (1, num_box * (5 + num_classes), S, S) of YOLOv2."""

    side: int = field(1, "uint32", 13, doc="not used, since the map has its size")
    num_classes: int = field(2, "uint32", 20, least=1, doc="classes scored")
    num_box: int = field(3, "uint32", 5, least=1, doc="boxes per cell")
    coords: int = field(4, "uint32", 4, doc="values of a box; always 4")
    confidence_threshold: float = field(5, "float", 0.01, doc="scores must reach it")
    nms_threshold: float = field(6, "float", 0.45, doc="boxes whose IoU with a better one reaches it are dropped")
    biases: tuple[float, ...] = field(7, "float", repeated=True, doc="width and height of each box, in cells")
    label_map_file: str = field(8, "string", "", doc="names of the labels, for drawing; not read here")

    def setup(self) -> None:
        need(self.has("num_classes"), "parameter 'num_classes' is missing")
        need(self.coords == 4, f"coords must be 4, got {self.coords}")
        check(self.nms_threshold, self.biases)
        need(
            len(self.biases) >= 2 * self.num_box,
            f"num_box={self.num_box} needs {2 * self.num_box} biases, got {len(self.biases)}",
        )

    @property
    def anchors(self) -> Array:
        """The width and height (num_box, 2) of the boxes, in cells."""
        return np.array(self.biases, np.float32)[: 2 * self.num_box].reshape(-1, 2)


_V3 = ((10, 13, 16, 30, 33, 23), (30, 61, 62, 45, 59, 119), (116, 90, 156, 198, 373, 326))
_TINY = ((10, 14, 23, 27, 37, 58), (81, 82, 135, 169, 344, 319))
_V4 = ((142, 110, 192, 243, 459, 401), (36, 75, 76, 55, 72, 146), (12, 16, 19, 36, 40, 28))
"""Width and height of the boxes of each input, in pixels of the network's input."""


@layer("YoloDetection")
class YoloDetection(Layer):
    """Decode the maps of YOLOv3 and v4 to rows [x, y, width, height, class, score], relative to the image.

    Maps (N, 3 * (5 + class_num), H, W), three or with `tiny` two, to (N, 1, keep_topk, 6), filled up with zeros.
    The score is the objectness times the largest softmax of the classes. Boxes whose score reaches obj_threshold
    are kept unless they overlap a better one of their class; see `kept_pairwise`. The rows are sorted by input,
    row, column and anchor, and *keep_topk cuts in this order*: strong boxes may be lost, as in Sophgo's Caffe.
    Input 0 has the smallest anchors, with `yolo_v4` the largest.
    The layer runs in Python, since it compares pairs one after the other.
    Source: the Caffe in tpu-mlir 1.30.2 (executed); arXiv 1804.02767.
    """

    message = "yolo_detection_param"
    numbers: ClassVar = {"": 303, "sophgo": 303}
    net_input_h: int = field(1, "uint32", least=1, doc="rows of the network's input")
    net_input_w: int = field(2, "uint32", least=1, doc="columns of the network's input")
    nms_threshold: float = field(
        3, "float", least=0, most=1, doc="boxes whose IoU with a better one exceeds it are dropped"
    )
    obj_threshold: float = field(4, "float", doc="scores must reach it")
    keep_topk: int = field(5, "uint32", least=1, doc="number of rows per image")
    spp_net: bool = field(6, "bool", False, doc="not supported: its effect is not known")
    tiny: bool = field(7, "bool", False, doc="two inputs, with the anchors of YOLOv3-tiny")
    class_num: int = field(8, "uint32", 80, least=1, doc="number of classes")
    anchors: str = field(9, "string", "", doc="width and height of three boxes per input, separated by commas")
    yolo_v4: bool = field(10, "bool", False, doc="the anchors of YOLOv4")

    def setup(self) -> None:
        need(not self.spp_net, "spp_net: true is not supported, since its effect is not known")
        self.sizes = self._anchors()

    def _anchors(self) -> list[Array]:
        """Return the width and height (3, 2) of the boxes of each input."""
        sizes = _TINY if self.tiny else _V4 if self.yolo_v4 else _V3
        values = [float(v) for level in sizes for v in level]
        if self.anchors:
            words = [word for word in re.split(r"[,\s]+", self.anchors) if word]
            numbers = len(words) == len(values) and all(re.fullmatch(r"\d+(\.\d*)?", word) for word in words)
            need(numbers, f"anchors must be {len(values)} numbers separated by commas, got '{self.anchors}'")
            values = [float(word) for word in words]
        return list(np.array(values, np.float32).reshape(-1, 3, 2))

    def forward(self, *maps: Array) -> Array:
        need(len(maps) == len(self.sizes), f"takes {len(self.sizes)} maps, got {len(maps)}")
        parts = [self._decode(x, sizes, f"input {i}") for i, (x, sizes) in enumerate(zip(maps, self.sizes))]
        boxes, labels, scores = (np.concatenate(columns, axis=1) for columns in zip(*parts))
        is_kept = self._survivors(corners(boxes[..., :2], boxes[..., 2:]), labels, scores)
        n, p = labels.shape
        k = min(self.keep_topk, p)
        place, _ = ops.top_k(np.where(is_kept, np.arange(p), p), k, axis=1, largest=False)
        chosen = np.minimum(place, p - 1) + np.arange(n)[:, None] * p
        rows = np.concatenate([boxes, labels[..., None].astype(np.float32), scores[..., None]], axis=2)
        table = np.where((place < p)[..., None], rows.reshape(n * p, 6)[chosen], np.float32(0))
        return np.pad(table, [(0, 0), (0, self.keep_topk - k), (0, 0)])[:, None]

    def _decode(self, x: Array, sizes: Array, what: str) -> tuple[Array, Array, Array]:
        """Return the boxes (N, K, 4), labels (N, K) and scores (N, K) of a map."""
        h, w = plane_of(x, what)
        n, each = x.shape[0], 5 + self.class_num
        need(
            x.shape[1] == 3 * each, f"{what} must have 3 * (5 + class_num) = {3 * each} channels, got {x.shape[1]}"
        )
        v = x.reshape(n, 3, each, h, w).transpose(0, 3, 4, 1, 2).reshape(n, h * w * 3, each)
        image = np.array([self.net_input_w, self.net_input_h], np.float32)
        centre, size = decode(v, sizes * (np.array([w, h], np.float32) / image), h, w)
        classes = ops.softmax(v[..., 5:], axis=2)
        score = ops.sigmoid(v[..., 4]) * classes.max(axis=2)
        return np.concatenate([centre, size], axis=2), classes.argmax(axis=2), score

    def _survivors(self, boxes: Array, labels: Array, scores: Array) -> Array:
        """Return which boxes (N, P, 4) are kept, as (N, P): see kept_pairwise."""
        is_kept = np.zeros(scores.shape, bool)
        for image in range(scores.shape[0]):
            candidates = np.flatnonzero(scores[image] >= np.float32(self.obj_threshold))
            each = (boxes[image][candidates], labels[image][candidates], scores[image][candidates])
            is_kept[image, candidates[kept_pairwise(*each, self.nms_threshold)]] = True
        return is_kept


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
        parts = [self.of_map(x, self.anchors) for x in maps]
        return detections(parts, nms_threshold=self.nms_threshold, least=below(self.confidence_threshold))

    def of_map(self, x: Array, anchors: Array) -> tuple[Array, Array, Array]:
        """Return boxes (K, 4), labels (K,) and scores (K,) of one map."""
        predictions = cells(x, self.num_box, self.num_classes)
        height, width = x.shape[2:]
        need(height == width, f"needs square maps, got {height} x {width} (Caffe's layer reads both as the width)")
        boxes = corners(*decode(predictions, anchors, height, width))
        probabilities = ops.softmax(predictions[:, 5:], axis=1)
        return boxes, probabilities.argmax(axis=1) + 1, ops.sigmoid(predictions[:, 4]) * probabilities.max(axis=1)


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
    num_classes: int = field(1, "uint32", 20, least=1, doc="classes scored")
    num_box: int = field(2, "uint32", 3, least=1, doc="boxes per cell")
    confidence_threshold: float = field(3, "float", 0.01, doc="scores must exceed it")
    nms_threshold: float = field(4, "float", 0.45, doc="boxes whose IoU with a better one reaches it are dropped")
    biases: tuple[float, ...] = field(5, "float", repeated=True, doc="width and height of each box, in pixels")
    anchors_scale: tuple[int, ...] = field(6, "uint32", repeated=True, doc="pixels per cell, for each map")
    mask_group_num: int = field(7, "uint32", 2, least=1, doc="number of maps")
    mask: tuple[int, ...] = field(
        8, "uint32", repeated=True, doc="indices of the biases that the boxes of each map use"
    )

    def setup(self) -> None:
        need(self.has("num_classes"), "parameter 'num_classes' is missing")
        check(self.nms_threshold, self.biases)
        groups = self.mask_group_num
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
        parts = [self.of_map(t, x) for t, x in enumerate(maps)]
        return detections(parts, nms_threshold=self.nms_threshold, least=self.confidence_threshold)

    def of_map(self, t: int, x: Array) -> tuple[Array, Array, Array]:
        """Return boxes (K, 4), labels (K,) and scores (K,) of map `t`."""
        used = self.mask[t * self.num_box : (t + 1) * self.num_box]
        anchors = np.array(self.biases, np.float32).reshape(-1, 2)[list(used)]
        predictions = cells(x, self.num_box, self.num_classes)
        boxes = corners(*decode(predictions, anchors, x.shape[2], x.shape[3], self.anchors_scale[t]))
        scores = ops.sigmoid(predictions[:, 5:]) * ops.sigmoid(predictions[:, 4:5])
        return boxes, scores.argmax(axis=1) + 1, scores.max(axis=1)
