"""Losses that only serve training: they are declared so that files with them can be read, but not computed."""

from __future__ import annotations

from anylayer.layer import Enum, field, layer
from anylayer.layers._table import define
from anylayer.layers.caffe._losses import LossLayer, TrainingLoss


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
