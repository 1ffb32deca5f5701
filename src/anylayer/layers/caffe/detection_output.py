"""DetectionOutput: SSD's layer, its variants of Ascend, OpenCV and Intel, and that of Caffe's YOLOv2 forks."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, ClassVar

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, Message, field, layer, need, samples
from anylayer.layer.arguments import same
from anylayer.layers._detections import (
    LOWEST,
    adaptive,
    among_best,
    below,
    corners,
    decreasing_thresholds,
    for_overlap,
    keep_best,
    only_best,
    output,
    rows,
)
from anylayer.layers.caffe.prior_box import CODES
from anylayer.layers.caffe.yolo_detection import YoloV2Layer, cells, decode, suppress

_MAX_THRESHOLDS = 64  # thresholds of one NMS


def pad_priors(priors: Array) -> Array:
    """Return priors (P, 1, 4), padded to the maximum when P is a dynamic size."""
    return ops.pad_to_maximum(priors, 0.0)


class NonMaximumSuppressionParameter(Message):
    """The fields of NMS in SSD."""

    nms_threshold: float = field(1, "float", 0.3, doc="boxes that overlap a better one by more are dropped")
    top_k: int = field(2, "int32", -1, doc="boxes per class, best first, that enter NMS; -1: all")
    eta: float = field(3, "float", 1.0, doc="factor of the threshold after each kept box while it exceeds 0.5")


class ResizeParameter(Message):
    """How SSD resizes pictures for training."""

    prob: float = field(1, "float", 1.0)
    resize_mode: str = field(2, Enum(WARP=1, FIT_SMALL_SIZE=2, FIT_LARGE_SIZE_AND_PAD=3), "WARP")
    height: int = field(3, "uint32", 0)
    width: int = field(4, "uint32", 0)
    pad_mode: str = field(5, Enum(CONSTANT=1, MIRRORED=2, REPEAT_NEAREST=3), "CONSTANT")
    pad_value: tuple[float, ...] = field(6, "float", repeated=True)
    interp_mode: tuple[str, ...] = field(7, Enum(LINEAR=1, AREA=2, NEAREST=3, CUBIC=4, LANCZOS4=5), repeated=True)
    height_scale: int = field(8, "uint32", 0)
    width_scale: int = field(9, "uint32", 0)


class SaveOutputParameter(Message):
    """SSD's files for an evaluation, which do not affect the output."""

    output_directory: str = field(1, "string", "")
    output_name_prefix: str = field(2, "string", "")
    output_format: str = field(3, "string", "")
    label_map_file: str = field(4, "string", "")
    name_size_file: str = field(5, "string", "")
    num_test_image: int = field(6, "uint32", 0)
    resize_param: Any = field(7, ResizeParameter, None, doc="how the images were resized, for the files")


class SsdDetectionOutput(Layer):
    """The fields and the computation that all variants of SSD's layer share."""

    message = "detection_output_param"
    samples: ClassVar = {1: samples.scores, 2: samples.priors}
    numbers: ClassVar = {"sophgo": 204, "": 204, "ascend": 150, "opencv": 147, "model-optimizer": 211}
    takes = frozenset({2, 3})
    extra: float = 0.0
    """The number that NMS adds to widths and heights."""

    num_classes: int = field(1, "uint32", least=1, doc="classes scored, the background included")
    share_location: bool = field(2, "bool", True, doc="one box per prior for all classes, or one per class")
    background_label_id: int = field(3, "int32", 0, doc="the class that is no object; -1: there is none")
    nms_param: NonMaximumSuppressionParameter = field(4, NonMaximumSuppressionParameter)
    save_output_param: SaveOutputParameter = field(5, SaveOutputParameter)
    code_type: str = field(6, CODES, "CORNER", doc="encoding of the boxes relative to the priors")
    keep_top_k: int = field(7, "int32", -1, doc="boxes kept per image over all classes; -1: all")
    variance_encoded_in_target: bool = field(
        8, "bool", False, doc="whether the boxes are not scaled by the variances"
    )
    confidence_threshold: float = field(9, "float", float(LOWEST), doc="scores must exceed it")

    def setup(self) -> None:
        need(self.outputs == 1, f"has 1 output, got {self.outputs}")
        self.threshold, self.top_k = self.nms_settings()
        need(self.threshold >= 0, f"nms_threshold must not be negative, got {self.threshold:g}")
        eta = self.nms_param.eta
        need(0 < eta <= 1, f"nms_param.eta must lie in (0, 1], got {eta:g}")
        self.thresholds = decreasing_thresholds(self.threshold, eta)
        need(
            len(self.thresholds) <= _MAX_THRESHOLDS,
            f"nms_param.eta={eta:g} with nms_threshold={self.threshold:g} lowers the threshold from box to box "
            f"more than {_MAX_THRESHOLDS} times, which is not supported; at 0.5 or less eta has no effect",
        )
        need(self.top_k != 0, "nms_param.top_k=0 keeps no box; -1 keeps all")
        need(
            self.num_classes > (0 <= self.background_label_id < self.num_classes),
            f"num_classes={self.num_classes} leaves no class but background_label_id={self.background_label_id}",
        )
        need(self.keep_top_k != 0, "keep_top_k=0 keeps no box; -1 keeps all")
        need(
            not (self.share_location and self.background_label_id == -1),
            "background_label_id: -1 with share_location: true is not defined: Caffe and OpenCV abort, because "
            "they mark shared boxes by -1 too. Where no class is the background give a number that is not a "
            f"class, for example background_label_id: {self.num_classes}",
        )

    def nms_settings(self) -> tuple[float, int]:
        """Return the threshold of NMS, and the number of boxes per class that enter it (negative: all)."""
        return self.nms_param.nms_threshold, self.nms_param.top_k

    def forward(self, *inputs: Array) -> Array:
        """Return (1, 1, D, 7) for loc (N, P * 4 * L), conf (N, P * C) and priors (1, 2, P * 4)."""
        loc, conf, prior, variance = self.three(inputs)
        return self.detect(self.decode(loc, prior, variance), conf)

    def detect(self, boxes: Array, conf: Array) -> Array:
        """Return the output for boxes (N, P, L, 4) and confidences (N, P, C)."""
        scores = conf.transpose(0, 2, 1)[:, self.classes]
        if not self.share_location:
            boxes = boxes.transpose(0, 2, 1, 3)[:, self.classes]
        return self.output_rows(*self.suppress(boxes, scores), boxes.shape[0])

    def three(self, inputs: tuple[Any, ...]) -> tuple[Array, Array, Array, Array | None]:
        """Return locations (N, P, L, 4), confidences (N, P, C), priors (P, 1, 4) and their variances, or None.

        If the number of priors is dynamic (regions of a Proposal), all are padded to its maximum. The padding has
        the lowest score, which never exceeds confidence_threshold.
        """
        need(len(inputs) == 3, f"takes 3 inputs (locations, confidences, priors), got {len(inputs)}")
        loc, conf, prior = inputs
        n, shape = loc.shape[0], prior.shape
        need(
            len(shape) >= 3 and shape[0] > 0 and shape[1] in (1, 2) and shape[2] % 4 == 0 and prod(shape[3:]) == 1,
            f"priors must be of shape (1, 2, 4 * number of priors), got {tuple(shape)}",
        )
        need(
            shape[1] == 2 or self.variance_encoded_in_target,
            f"priors {tuple(shape)} hold no variances, which variance_encoded_in_target: false needs",
        )
        need(shape[2] != 0, "the number of priors must be positive, got 0")
        p, sides = shape[2] // 4, 1 if self.share_location else self.num_classes
        for what, x, length in (("locations", loc, p * sides * 4), ("confidences", conf, p * self.num_classes)):
            need(
                prod(x.shape[1:]) == length and x.shape[0] == n,
                f"{p} priors and num_classes={self.num_classes} need {what} of shape ({n}, {length}), "
                f"got {tuple(x.shape)}",
            )
        variance = None if self.variance_encoded_in_target else pad_priors(prior[0, 1].reshape(p, 1, 4))
        loc, conf = loc.reshape(n, p, sides, 4), conf.reshape(n, p, self.num_classes)
        conf = ops.pad_to_maximum(conf, float(LOWEST), axis=1)
        return ops.pad_to_maximum(loc, 0.0, axis=1), conf, pad_priors(prior[0, 0].reshape(p, 1, 4)), variance

    def decode(self, loc: Array, prior: Array, variance: Array | None) -> Array:
        """Return boxes (N, P, L, 4) for locations (N, P, L, 4), priors ([N,] P, 1, 4) and variances (P, 1, 4).

        `variance` is None when the locations are not scaled. Source: bbox_util.cpp DecodeBBox.
        """
        start, end = prior[..., :2], prior[..., 2:]
        coded = loc if variance is None else variance * loc
        low, high = coded[..., :2], coded[..., 2:]
        if self.code_type == "CORNER":
            return np.concatenate([start + low, end + high], axis=-1)
        size = self.sides(start, end)
        if self.code_type == "CORNER_SIZE":
            return np.concatenate([start + low * size, end + high * size], axis=-1)
        return corners(low * size + self.centre(start, end), np.exp(high) * size)

    @property
    def classes(self) -> Array:
        """Return the classes that are objects. The confidences must be checked first."""
        return np.flatnonzero(np.arange(self.num_classes) != self.background_label_id)

    def classes_at(self, index: Array) -> Array:
        """Return the classes at `index` of `classes`."""
        if 0 <= self.background_label_id < self.num_classes:
            return index + (index >= self.background_label_id).astype(np.int64)
        return index

    def sides(self, start: Array, end: Array) -> Array:
        """Return widths and heights of the priors."""
        return end - start

    def centre(self, start: Array, end: Array) -> Array:
        """Return the centers of the priors."""
        return (start + end) * np.float32(0.5)

    def suppress(self, boxes: Array, scores: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Apply NMS within each class of each image to its `top_k` best boxes.

        `boxes` are (N, P, 1, 4), shared by the classes, or (N, C, P, 4); `scores` are (N, C, P). Return image,
        class and score (M,), box (M, 4), sorted by image, class and descending score, and the number of valid
        rows. Of equal scores the earlier prior is better (std::stable_sort in GetMaxScoreIndex).
        """
        n, c, p = scores.shape
        k = p if self.top_k < 0 else min(self.top_k, p)
        owners = n if self.share_location else n * c
        if len(self.thresholds) > 1:
            return self.suppress_adaptively(boxes, scores, k)
        if not same(k, p):
            scores = only_best(scores, k, self.confidence_threshold)
        boxes, scores = boxes.reshape(owners, p, 4), scores.reshape(owners, n * c // owners, p)
        owner, inner, at, count = keep_best(
            boxes, scores, k, self.threshold, self.confidence_threshold, self.extra
        )
        flat = owner * scores.shape[1] + inner
        score, box = scores.reshape(-1)[flat * p + at], boxes.reshape(-1, 4)[owner * p + at]
        return flat // c, flat % c, score, box, count

    def suppress_adaptively(self, boxes: Array, scores: Array, k: int) -> tuple[Array, Array, Array, Array, Array]:
        """Apply `suppress` with a threshold that decreases (nms_param.eta)."""
        n, c, p = scores.shape
        scores, index = ops.top_k(scores, k)
        side = np.arange(n * (1 if self.share_location else c)).reshape(n, -1, 1)
        boxes = boxes.reshape(-1, 4)[side * p + index].reshape(n * c, k, 4)
        near, scores = for_overlap(boxes, self.extra), scores.reshape(n * c, k)
        candidates, count = adaptive(near, scores, self.thresholds, self.confidence_threshold)
        return (
            candidates // k // c,
            candidates // k % c,
            scores.reshape(-1)[candidates],
            boxes.reshape(-1, 4)[candidates],
            count,
        )

    def output_rows(
        self, image: Array, label: Array, score: Array, box: Array, count: Array, images: int
    ) -> Array:
        """Return the rows of the `keep_top_k` best of each image, by image, class and descending score.

        Of equal scores the earlier is kept, which Caffe's std::sort leaves open.
        """
        chosen, count = self.best_candidates(image, score, count, images)
        image, label, score, box = image[chosen], label[chosen], score[chosen], box[chosen]
        return output(rows(image, self.classes_at(label), score, box), count, images)

    def best_candidates(self, image: Array, score: Array, count: Array, images: int) -> tuple[Array, Array]:
        """Return the ascending indices of the candidates that are kept, and the number of valid ones."""
        m = score.shape[0]
        if self.keep_top_k < 0:
            return np.arange(m), count
        real = (image == np.arange(images)[:, None]) & (np.arange(m) < count)
        best = (among_best(np.where(real, score, LOWEST), self.keep_top_k) & real).any(axis=0)
        place = np.where(best, np.arange(m), m)
        chosen, _ = ops.top_k(place, min(images * self.keep_top_k, m), largest=False)
        return np.minimum(chosen, m - 1), best.astype(np.int64).sum()


class DrawnDetectionOutput(SsdDetectionOutput):
    """A variant with the fields by which SSD draws detections."""

    visualize: bool = field(10, "bool", False, doc="draw the detections; no effect here")
    visualize_threshold: float = field(11, "float", 0.6)
    save_file: str = field(12, "string", "")


@layer("DetectionOutput", dialects=("ssd", "mobilenet-yolo"))
class DetectionOutput(DrawnDetectionOutput):
    """Decode boxes and keep the best of each class (SSD, arXiv 1512.02325).

    loc (N, P * 4 * L), conf (N, P * C) and priors (1, 2, P * 4) to rows [image, label, score, x1, y1, x2, y2] (1,
    1, D, 7), where L is 1 with share_location, else C, and D is a dynamic size.
    Source: weiliu89/caffe (branch ssd) src/caffe/layers/detection_output_layer.cpp, src/caffe/util/bbox_util.cpp.
    """


@layer("DetectionOutput", dialects=("sophgo",))
class SophgoDetectionOutput(DetectionOutput):
    """Decode boxes and keep the best of each class, where prior 0 takes part whatever its score (Sophgo).

    As SSD's layer otherwise. Without a score above the threshold, each class has one row, of prior 0.
    Source: the Caffe in tpu-mlir 1.30.2 (executed).
    """

    needs_dialect = True

    def setup(self) -> None:
        super().setup()
        self.least = np.float32(self.confidence_threshold)
        self.confidence_threshold = float(LOWEST)

    def detect(self, boxes: Array, conf: Array) -> Array:
        first = np.arange(conf.shape[1])[:, None] == 0
        return super().detect(boxes, np.where((conf > self.least) | first, conf, LOWEST))


@layer("DetectionOutput", dialects=("refinedet",))
class RefineDetDetectionOutput(DrawnDetectionOutput):
    """Decode boxes in two stages and keep the best of each class (RefineDet, arXiv 1711.06897).

    The inputs and the output are those of SSD's layer. Two more inputs are the first stage's probabilities of
    background and object (N, P * 2), and its offsets (N, P * 4), encoded as the locations are. Where the
    probability of an object is below objectness_score, class 0 scores 1, others 0. Without the offsets the priors
    are not moved.
    Source: sfzhang15/RefineDet src/caffe/layers/detection_output_layer.cpp, src/caffe/util/bbox_util.cpp.
    """

    takes = frozenset({4, 5})
    objectness_score: float = field(24, "float", 0.01, doc="smallest probability of an object in the first stage")

    def forward(self, *inputs: Array) -> Array:
        need(
            len(inputs) in (4, 5), f"takes 4 or 5 inputs (those of SSD, probabilities, offsets), got {len(inputs)}"
        )
        loc, conf, prior, variance = self.three(inputs[:3])
        n, p = conf.shape[:2]
        for what, x, each in zip(("probabilities", "offsets"), inputs[3:], (2, 4)):
            need(
                x.shape[0] == n and int(np.prod(x.shape[1:])) == p * each,
                f"{p} priors need the first stage's {what} of shape ({n}, {p * each}), got {tuple(x.shape)}",
            )
        if len(inputs) == 5:
            need(self.share_location, "share_location must be true when the first stage moves the priors")
            prior = self.decode(inputs[4].reshape(n, p, 1, 4), prior, variance)
        easy = inputs[3].reshape(n, p, 2)[:, :, 1:] < np.float32(self.objectness_score)
        nothing = (np.arange(self.num_classes) == 0).astype(np.float32)
        return self.detect(self.decode(loc, prior, variance), np.where(easy, nothing, conf))


@layer("DetectionOutput", dialects=("ascend",))
class AscendDetectionOutput(SsdDetectionOutput):
    """Decode boxes and keep the best of each class, with the defaults and flat NMS fields of Ascend.

    As SSD's layer; code_type is CENTER_SIZE and variance_encoded_in_target true by default.
    Source: Ascend/parser caffe.proto, DetectionOutputParameter.
    """

    distinctive = frozenset({"nms_threshold", "top_k", "boxes"})
    code_type: str = field(6, CODES, "CENTER_SIZE", doc="encoding of the boxes relative to the priors")
    variance_encoded_in_target: bool = field(
        8, "bool", True, doc="whether the boxes are not scaled by the variances"
    )
    nms_threshold: float = field(13, "float", 0.3, doc="in place of nms_param's")
    top_k: int = field(14, "int32", -1, doc="in place of nms_param's")
    boxes: int = field(15, "int32", 1, doc="boxes per cell, which only Ascend's YOLO layers have")

    def nms_settings(self) -> tuple[float, int]:
        need(self.boxes == 1, f"boxes must be 1 in a DetectionOutput, got {self.boxes}")
        flat = self.has("nms_threshold") or self.has("top_k")
        need(
            not (flat and self.has("nms_param")),
            "nms_threshold and top_k are given both in nms_param and besides it; give them once",
        )
        return (self.nms_threshold, self.top_k) if flat else super().nms_settings()


@layer("DetectionOutput", dialects=("model-optimizer", "openvino"))
class IntelDetectionOutput(DrawnDetectionOutput):
    """Decode boxes and keep the best of each class, with `normalized` and the input size of Intel's layer.

    As SSD's layer.
    Source: openvinotoolkit/openvino model-optimizer/mo/front/caffe/proto/mo_caffe.proto.
    """

    distinctive = frozenset({"input_width", "input_height", "normalized"})
    input_width: int = field(13, "int32", -1, doc="used only where normalized is false")
    input_height: int = field(14, "int32", -1, doc="used only where normalized is false")
    normalized: bool = field(15, "bool", True, doc="priors lie in [0, 1]; must be true")

    def setup(self) -> None:
        super().setup()
        need(self.normalized, "normalized: false (priors in pixels, of 5 values each) is not supported")


@layer("DetectionOutput", dialects=("opencv",))
class OpenCvDetectionOutput(SsdDetectionOutput):
    """Decode boxes and keep the best of each class, padded with zeros to keep_top_k rows per image (OpenCV).

    As SSD's layer, with `normalized_bbox`, and rows sorted by descending score. With `clip` and boxes in pixels, a
    fourth input (N, C, H, W) gives the size of the image.
    Source: opencv/opencv modules/dnn/src/layers/detection_output_layer.cpp, src/caffe/opencv-caffe.proto.
    """

    distinctive = frozenset({"normalized_bbox", "clip"})
    takes = frozenset({2, 3, 4})
    confidence_threshold: float = field(9, "float", 0.0, doc="scores must exceed it")
    normalized_bbox: bool = field(10, "bool", True, doc="false: boxes are in pixels, their ends included")
    clip: bool = field(1000, "bool", False, doc="clip the boxes to the image, before NMS")

    def setup(self) -> None:
        super().setup()
        need(self.keep_top_k > 0, f"keep_top_k must be at least 1 for OpenCV's layer, got {self.keep_top_k}")
        need(self.code_type != "CORNER_SIZE", "code_type must be CORNER or CENTER_SIZE for OpenCV's layer")
        self.extra = 0.0 if self.normalized_bbox else 1.0

    def forward(self, *inputs: Array) -> Array:
        need(
            len(inputs) in (3, 4),
            f"takes 3 or 4 inputs (locations, confidences, priors, image), got {len(inputs)}",
        )
        loc, conf, prior, variance = self.three(inputs[:3])
        boxes = self.decode(loc, prior, variance)
        return self.detect(self.clip_boxes(boxes, inputs[3:]) if self.clip else boxes, conf)

    def clip_boxes(self, boxes: Array, image: Sequence[Any]) -> Array:
        """Return boxes (..., 4), clipped to 0 and 1, or to the first and last pixel of the image."""
        if self.normalized_bbox:
            return np.clip(boxes, np.float32(0), np.float32(1))
        need(
            len(image) == 1 and len(image[0].shape) == 4,
            "clip with normalized_bbox: false needs the image (N, C, H, W) as a fourth input, to know its size",
        )
        height, width = image[0].shape[2:]
        last = np.array([width - 1, height - 1] * 2, np.float32)
        return np.maximum(np.minimum(boxes, last), np.float32(0))

    def sides(self, start: Array, end: Array) -> Array:
        return end - start + np.float32(self.extra) if self.extra else end - start

    def centre(self, start: Array, end: Array) -> Array:
        return start + self.sides(start, end) * np.float32(0.5)

    def output_rows(
        self, image: Array, label: Array, score: Array, box: Array, count: Array, images: int
    ) -> Array:
        """Return (1, 1, images * keep_top_k, 7). Of equal scores the earlier comes first; OpenCV does not say."""
        m, total = score.shape[0], images * self.keep_top_k
        real = (image == np.arange(images)[:, None]) & (np.arange(m) < count)
        best, index = ops.top_k(np.where(real, score, LOWEST), min(self.keep_top_k, m), axis=1)
        index, size = index.reshape(-1), best.size
        place = np.sort(np.where(best.reshape(-1) > LOWEST, np.arange(size), size))
        chosen = index[np.minimum(place, size - 1)]
        table = rows(image[chosen], self.classes_at(label[chosen]), score[chosen], box[chosen])
        table = np.where((place < size)[:, None], table, np.float32(0))
        return np.concatenate([table, np.zeros((total - size, 7), np.float32)])[None, None]


@layer("DetectionOutput", dialects=("yolov2",))
class YoloV2DetectionOutput(YoloV2Layer):
    """Decode one YOLOv2 map to rows [0, label, score, x, y, width, height], with labels from 0 (YOLOv2 forks).

    (1, num_box * (5 + num_classes), side, side) to (1, 1, D, 7), where D is a dynamic size. A box is dropped when
    its IoU with a kept box of an *earlier cell* reaches nms_threshold, whatever the scores, since the forks do not
    sort. Overlaps are those of the boxes clipped to the image.
    Source: gklz1982/caffe-yolov2 src/caffe/layers/detection_output_layer.cpp, region_loss_layer.hpp.
    """

    message = "detection_output_param"
    numbers: ClassVar = {"yolov2": 204}
    takes = frozenset({1})
    side: int = field(1, "uint32", 13, doc="height and width of the map")
    nms_threshold: float = field(6, "float", 0.45, doc="boxes that overlap an earlier one by as much are dropped")

    def forward(self, x: Array) -> Array:
        predictions = cells(x, self.num_box, self.num_classes)
        need(
            tuple(x.shape[2:]) == (self.side, self.side),
            f"side={self.side} does not fit a map of {x.shape[2]} x {x.shape[3]}",
        )
        centre, size = decode(predictions, self.anchors, self.side, self.side)
        chances = ops.softmax(predictions[:, 5:], axis=1)
        score = ops.sigmoid(predictions[:, 4]) * chances.max(axis=1)
        k = score.shape[0]
        earlier = np.arange(k, 0, -1).astype(np.float32)
        order = np.where(score > np.float32(below(self.confidence_threshold)), earlier, np.float32(0))
        inside = np.clip(corners(centre, size), np.float32(0), np.float32(1))
        index, count = suppress(inside, order, self.nms_threshold, 0.0)
        boxes = np.concatenate([centre, size], axis=1)
        label = chances.argmax(axis=1)
        return output(rows(np.zeros(k, np.float32), label[index], score[index], boxes[index]), count, 1)
