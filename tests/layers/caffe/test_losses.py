"""Losses that serve training only."""

import pytest

from anylayer.layer import Registry
from tests.layers.harness import ramp, rejects

TYPES = [
    "EuclideanLoss",
    "MultinomialLogisticLoss",
    "SigmoidCrossEntropyLoss",
    "HingeLoss",
    "InfogainLoss",
    "ContrastiveLoss",
    "SmoothL1Loss",
    "MultiBoxLoss",
    "RegionLoss",
    "YoloLoss",
    "Yolov3",
    "DetectionEvaluate",
]


@pytest.mark.parametrize("type", TYPES)
def test_they_serve_training(type: str) -> None:
    assert Registry.of("caffe").find(type)[0].cls.role == "training"


test_not_computed = rejects(
    "EuclideanLoss",
    inputs=[ramp(2), ramp(2)],
    text="EuclideanLoss is a layer for training and is not computed",
)
test_rejects_unknown_norm = rejects("HingeLoss", {"norm": "L3"}, inputs=[], text="must be one of L1, L2, got L3")
