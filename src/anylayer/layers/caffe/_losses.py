"""What the loss layers of Caffe share."""

from __future__ import annotations

from typing import Any

from anylayer.layer import Enum, Layer, field, need
from anylayer.network import Array


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
