"""Losses, and Accuracy."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, Layer, field, layer, need
from anylayer.layers._table import define
from anylayer.layers.caffe._axes import canonical
from anylayer.layers.caffe.normalization import Softmax


class LossLayer(Layer):
    """A layer that reads loss_param and serves training.

    Source: BVLC/caffe src/caffe/layers/loss_layer.cpp.
    """

    message = "loss_param"
    numbers = {"": 101}
    role = "loss"
    ignore_label: int | None = field(1, "int32", None, doc="label whose instances are ignored; default: none")
    normalize: bool | None = field(2, "bool", None, doc="older spelling: true is VALID, false is BATCH_SIZE")
    normalization: str = field(
        3, Enum("FULL", "VALID", "BATCH_SIZE", "NONE"), "VALID", doc="what the sum is divided by"
    )


class TrainingLoss(Layer):
    """A loss that is declared so that files with it can be read, but is not computed: it is left out."""

    role = "training"

    def forward(self, *inputs: Array) -> Any:
        need(False, f"{self.type} is a layer for training and is not computed")


class _NormalizedLoss(TrainingLoss, LossLayer):
    """A loss that reads loss_param and is not computed."""


_DECLARED = {
    "EuclideanLoss": (
        _NormalizedLoss,
        "the loss sum((a - b)^2) / (2 * N) of two inputs (N, ...)",
        "BVLC/caffe src/caffe/layers/euclidean_loss_layer.cpp",
    ),
    "MultinomialLogisticLoss": (
        _NormalizedLoss,
        "the mean of -log(probability) at the labels. Inputs: probabilities (N, C, ...), labels (N, ...)",
        "BVLC/caffe src/caffe/layers/multinomial_logistic_loss_layer.cpp",
    ),
    "SigmoidCrossEntropyLoss": (
        _NormalizedLoss,
        "the cross entropy of sigmoid(x) and targets in 0..1, for x and targets of one shape",
        "BVLC/caffe src/caffe/layers/sigmoid_cross_entropy_loss_layer.cpp",
    ),
    "MultiBoxLoss": (
        _NormalizedLoss,
        "the matching, localization and confidence losses of SSD (arXiv 1512.02325)",
        "weiliu89/caffe (ssd) src/caffe/layers/multibox_loss_layer.cpp",
    ),
    "DetectionEvaluate": (
        TrainingLoss,
        "the counts of true and false positives of SSD's detections",
        "weiliu89/caffe (ssd) src/caffe/layers/detection_evaluate_layer.cpp",
    ),
    "RegionLoss": (
        TrainingLoss,
        "the loss of YOLO v2",
        "gklz1982/caffe-yolov2 src/caffe/layers/region_loss_layer.cpp",
    ),
    "Yolov3": (TrainingLoss, "the loss of YOLO v3", "eric612/MobileNet-YOLO src/caffe/layers/yolov3_layer.cpp"),
}
for _name, (_base, _what, _source) in _DECLARED.items():
    define(_name, _base, f"Declare {_what}.", f"It serves training and is not computed.\n    Source: {_source}.")


@layer("HingeLoss")
class HingeLoss(TrainingLoss):
    """Declare the one-against-all hinge loss. Inputs: scores (N, C), labels (N,).

    It serves training and is not computed.
    Source: BVLC/caffe src/caffe/layers/hinge_loss_layer.cpp.
    """

    message = "hinge_loss_param"
    numbers = {"": 114}
    norm: str = field(1, Enum(L1=1, L2=2), "L1", doc="of the margins")


@layer("InfogainLoss")
class InfogainLoss(TrainingLoss):
    """Declare the infogain loss -H[label] @ log(p) for p (N, C, ...), labels (N, ...) and a matrix H (C, C).

    It serves training and is not computed.
    Source: BVLC/caffe src/caffe/layers/infogain_loss_layer.cpp.
    """

    message = "infogain_loss_param"
    numbers = {"": 116}
    source: str = field(1, "string", "", doc="file of the matrix")
    axis: int = field(2, "int32", 1, doc="axis of the scores that runs over the labels")


@layer("ContrastiveLoss")
class ContrastiveLoss(TrainingLoss):
    """Declare the contrastive loss (Hadsell et al. 2006) of two arrays (N, C) and labels (N,).

    It serves training and is not computed.
    Source: BVLC/caffe src/caffe/layers/contrastive_loss_layer.cpp.
    """

    message = "contrastive_loss_param"
    numbers = {"": 105}
    margin: float = field(1, "float", 1.0, doc="distance at which pairs stop being pushed")
    legacy_version: bool = field(2, "bool", False, doc="margin - d ** 2 in place of (margin - d) ** 2")


@layer("SmoothL1Loss")
class SmoothL1Loss(TrainingLoss):
    """Declare the smooth L1 loss of a - b for inputs of one shape: squares near 0, absolute values elsewhere.

    It serves training and is not computed.
    Source: rbgirshick/caffe-fast-rcnn src/caffe/layers/smooth_L1_loss_layer.cpp.
    """

    message = "smooth_l1_loss_param"
    numbers = {"fast-rcnn": 8266712, "intel": 148, "sophgo": 148}
    sigma: float = field(1, "float", 1.0, doc="the squares reach to 1 / sigma ** 2")


@layer("YoloLoss")
class YoloLoss(TrainingLoss):
    """Declare the loss of YOLO v3.

    It serves training and is not computed.
    """


_TINY = np.finfo(np.float32).tiny


@layer("SoftmaxWithLoss")
class SoftmaxWithLoss(LossLayer):
    """Compute the mean of -log(softmax) at the labels; the second output is the softmax.

    Inputs: scores (..., C, ...), and one label, an integer stored as a float, per position. A label outside 0..C-1
    that is not ignored is undefined.
    Source: BVLC/caffe src/caffe/layers/softmax_loss_layer.cpp, loss_layer.cpp.
    """

    also = {"softmax_param": Softmax}
    softmax_param: Softmax

    def forward(self, x: Array, label: Array) -> Any:
        weights = len(self.settings.get("loss_weight", ()))
        need(
            self.outputs in (1, weights),
            f"loss_weight must be given once for each of the {self.outputs} outputs, got {weights}",
        )
        axis = canonical(self.softmax_param.axis, x)
        outer, classes, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
        labels = prod(label.shape)
        need(labels == outer * inner, f"scores {tuple(x.shape)} need {outer * inner} labels, got {labels}")
        softmax = ops.softmax(x, axis=axis)
        label = label.reshape(outer, 1, inner).astype(np.int32)
        is_label = label == np.arange(classes, dtype=np.int32).reshape(1, classes, 1)
        counted = np.ones((outer, 1, inner), np.float32)
        if self.ignore_label is not None:
            counts = label != self.ignore_label
            is_label, counted = is_label & counts, counts.astype(np.float32)
        surprise = -np.log(np.maximum(softmax.reshape(outer, classes, inner), _TINY))
        loss = np.where(is_label, surprise, np.float32(0)).sum() / self._divisor(counted, outer)
        return loss if self.outputs == 1 else (loss, softmax)

    def _divisor(self, counted: Array, outer: int) -> Any:
        mode = self.normalization
        if not self.has("normalization") and self.normalize is not None:
            mode = "VALID" if self.normalize else "BATCH_SIZE"
        if mode == "VALID":
            return np.maximum(counted.sum(), np.float32(1))
        return np.float32(max(1, {"FULL": prod(counted.shape), "BATCH_SIZE": outer, "NONE": 1}[mode]))


@layer("Accuracy")
class Accuracy(Layer):
    """Compute the share of labels whose score is among the `top_k` highest.

    Inputs: scores (..., C, ...), and one label, an integer stored as a float, per position. A label counts as
    found when fewer than `top_k` other scores are at least as high as its own. Outputs: a scalar, and optionally
    the share per label (C,).
    Source: BVLC/caffe src/caffe/layers/accuracy_layer.cpp.
    """

    message = "accuracy_param"
    numbers = {"": 102}
    role = "loss"
    top_k: int = field(1, "uint32", 1, doc="number of the highest scores that may contain the label")
    axis: int = field(2, "int32", 1, doc="axis of the scores that runs over the labels")
    ignore_label: int | None = field(3, "int32", None, doc="positions of this label are ignored; default: none")

    def forward(self, x: Array, label: Array) -> Any:
        axis = canonical(self.axis, x)
        classes = x.shape[axis]
        need(self.top_k <= classes, f"top_k must be at most {classes}, the number of labels, got {self.top_k}")
        outer, inner = int(np.prod(x.shape[:axis])), int(np.prod(x.shape[axis + 1 :]))
        labels = int(np.prod(label.shape))
        need(labels == outer * inner, f"scores {tuple(x.shape)} need {outer * inner} labels, got {labels}")
        scores = x.reshape(outer, classes, inner)
        label = label.reshape(outer, 1, inner).astype(np.int32)
        is_label = label == np.arange(classes, dtype=np.int32).reshape(1, classes, 1)
        if self.ignore_label is not None:
            is_label = is_label & (label != self.ignore_label)
        truth = np.where(is_label, scores, np.float32(0)).sum(axis=1, keepdims=True)
        others = (scores >= truth).astype(np.float32).sum(axis=1, keepdims=True) - np.float32(1)
        counted = is_label.astype(np.float32)
        hits = counted * (others < self.top_k).astype(np.float32)
        share = hits.sum() / np.maximum(counted.sum(), np.float32(1))
        if self.outputs == 1:
            return share
        return share, hits.sum(axis=(0, 2)) / np.maximum(counted.sum(axis=(0, 2)), np.float32(1))
