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


def _declares(name: str, what: str, source: str, base: type[TrainingLoss] = TrainingLoss, /, **body: Any) -> None:
    """Register a loss with the fields `body`, which is not computed."""
    line = f"\n    Source: {source}." if source else ""
    define(name, base, f"Declare {what}.", f"It serves training and is not computed.{line}", **body)


_CAFFE = "BVLC/caffe src/caffe/layers/"
_declares("EuclideanLoss", "the loss sum((a - b)^2) / (2 * N) of two inputs (N, ...)",
    f"{_CAFFE}euclidean_loss_layer.cpp", _NormalizedLoss)  # fmt: skip
_declares("MultinomialLogisticLoss",
    "the mean of -log(probability) at the labels. Inputs: probabilities (N, C, ...), labels (N, ...)",
    f"{_CAFFE}multinomial_logistic_loss_layer.cpp", _NormalizedLoss)  # fmt: skip
_declares("SigmoidCrossEntropyLoss",
    "the cross entropy of sigmoid(x) and targets in 0..1, for x and targets of one shape",
    f"{_CAFFE}sigmoid_cross_entropy_loss_layer.cpp", _NormalizedLoss)  # fmt: skip
_declares("MultiBoxLoss", "the matching, localization and confidence losses of SSD (arXiv 1512.02325)",
    "weiliu89/caffe (ssd) src/caffe/layers/multibox_loss_layer.cpp", _NormalizedLoss)  # fmt: skip
_declares("DetectionEvaluate", "the counts of true and false positives of SSD's detections",
    "weiliu89/caffe (ssd) src/caffe/layers/detection_evaluate_layer.cpp")  # fmt: skip
_declares("RegionLoss", "the loss of YOLO v2", "gklz1982/caffe-yolov2 src/caffe/layers/region_loss_layer.cpp")
_declares("Yolov3", "the loss of YOLO v3", "eric612/MobileNet-YOLO src/caffe/layers/yolov3_layer.cpp")
_declares("YoloLoss", "the loss of YOLO v3", "")
_declares("HingeLoss", "the one-against-all hinge loss. Inputs: scores (N, C), labels (N,)",
    f"{_CAFFE}hinge_loss_layer.cpp", message="hinge_loss_param", numbers={"": 114},
    norm=field(1, Enum(L1=1, L2=2), "L1", doc="of the margins"))  # fmt: skip
_declares("InfogainLoss",
    "the infogain loss -H[label] @ log(p) for p (N, C, ...), labels (N, ...) and a matrix H (C, C)",
    f"{_CAFFE}infogain_loss_layer.cpp", message="infogain_loss_param", numbers={"": 116},
    source=field(1, "string", "", doc="file of the matrix"),
    axis=field(2, "int32", 1, doc="axis of the scores that runs over the labels"))  # fmt: skip
_declares("ContrastiveLoss", "the contrastive loss (Hadsell et al. 2006) of two arrays (N, C) and labels (N,)",
    f"{_CAFFE}contrastive_loss_layer.cpp", message="contrastive_loss_param", numbers={"": 105},
    margin=field(1, "float", 1.0, doc="distance at which pairs stop being pushed"),
    legacy_version=field(2, "bool", False, doc="margin - d ** 2 in place of (margin - d) ** 2"))  # fmt: skip
_declares("SmoothL1Loss",
    "the smooth L1 loss of a - b for inputs of one shape: squares near 0, absolute values elsewhere",
    "rbgirshick/caffe-fast-rcnn src/caffe/layers/smooth_L1_loss_layer.cpp",
    message="smooth_l1_loss_param", numbers={"fast-rcnn": 8266712, "intel": 148, "sophgo": 148},
    sigma=field(1, "float", 1.0, doc="the squares reach to 1 / sigma ** 2"))  # fmt: skip


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
        softmax = ops.softmax(x, axis=axis)
        scores, label, is_label = _labelled(softmax, label, axis)
        counted = np.ones(label.shape, np.float32)
        if self.ignore_label is not None:
            counts = label != self.ignore_label
            is_label, counted = is_label & counts, counts.astype(np.float32)
        surprise = -np.log(np.maximum(scores, _TINY))
        loss = np.where(is_label, surprise, np.float32(0)).sum() / self._divisor(counted, label.shape[0])
        return loss if self.outputs == 1 else (loss, softmax)

    def _divisor(self, counted: Array, outer: int) -> Any:
        mode = self.normalization
        if not self.has("normalization") and self.normalize is not None:
            mode = "VALID" if self.normalize else "BATCH_SIZE"
        if mode == "VALID":
            return np.maximum(counted.sum(), np.float32(1))
        return np.float32(max(1, {"FULL": prod(counted.shape), "BATCH_SIZE": outer, "NONE": 1}[mode]))


def _labelled(x: Array, label: Array, axis: int) -> tuple[Array, Array, Array]:
    """Return scores (N, C, M) with the C classes of `axis`, labels (N, 1, M), and whether a class is the label."""
    outer, classes, inner = prod(x.shape[:axis]), x.shape[axis], prod(x.shape[axis + 1 :])
    labels = prod(label.shape)
    need(labels == outer * inner, f"scores {tuple(x.shape)} need {outer * inner} labels, got {labels}")
    label = label.reshape(outer, 1, inner).astype(np.int32)
    is_label = label == np.arange(classes, dtype=np.int32).reshape(1, classes, 1)
    return x.reshape(outer, classes, inner), label, is_label


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
        scores, label, is_label = _labelled(x, label, axis)
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
