"""YoloDetection (Sophgo)."""

from __future__ import annotations

import re
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Layer, field, layer, need
from anylayer.layers._detections import kept_pairwise
from anylayer.layers.caffe._resampling import plane_of
from anylayer.layers.caffe._yolo import corners, decode
from anylayer.network import Array

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
    net_input_h: int = field(1, "uint32", doc="rows of the network's input")
    net_input_w: int = field(2, "uint32", doc="columns of the network's input")
    nms_threshold: float = field(3, "float", doc="boxes whose IoU with a better one exceeds it are dropped")
    obj_threshold: float = field(4, "float", doc="scores must reach it")
    keep_topk: int = field(5, "uint32", doc="number of rows per image")
    spp_net: bool = field(6, "bool", False, doc="not supported: its effect is not known")
    tiny: bool = field(7, "bool", False, doc="two inputs, with the anchors of YOLOv3-tiny")
    class_num: int = field(8, "uint32", 80, doc="number of classes")
    anchors: str = field(9, "string", "", doc="width and height of three boxes per input, separated by commas")
    yolo_v4: bool = field(10, "bool", False, doc="the anchors of YOLOv4")

    def setup(self) -> None:
        for name in ("net_input_h", "net_input_w", "keep_topk", "class_num"):
            need(getattr(self, name) > 0, f"{name} must be at least 1, got {getattr(self, name)}")
        need(0 <= self.nms_threshold <= 1, f"nms_threshold must lie in [0, 1], got {self.nms_threshold:g}")
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
            x.shape[1] == 3 * each,
            f"{what} must have 3 * (5 + class_num) = {3 * each} channels, got {x.shape[1]}",
        )
        v = x.reshape(n, 3, each, h, w).transpose(0, 3, 4, 1, 2).reshape(n, h * w * 3, each)
        image = np.array([self.net_input_w, self.net_input_h], np.float32)
        centre, size = decode(v, sizes * (np.array([w, h], np.float32) / image), h, w)
        classes = ops.softmax(v[..., 5:], axis=2)
        score = ops.sigmoid(v[..., 4]) * classes.max(axis=2)
        return np.concatenate([centre, size], axis=2), classes.argmax(axis=2), score

    def _survivors(self, boxes: Array, labels: Array, scores: Array) -> Any:
        """Return which boxes (N, P, 4) are kept, as (N, P): see kept_pairwise."""
        is_kept = np.zeros(scores.shape, bool)
        for image in range(scores.shape[0]):
            candidates = np.flatnonzero(scores[image] >= np.float32(self.obj_threshold))
            each = (boxes[image][candidates], labels[image][candidates], scores[image][candidates])
            is_kept[image, candidates[kept_pairwise(*each, self.nms_threshold)]] = True
        return is_kept
