"""SoftmaxWithLoss."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.layers.caffe._losses import LossLayer
from anylayer.layers.caffe.softmax import Softmax
from anylayer.network import Array

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
