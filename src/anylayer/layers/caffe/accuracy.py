"""Accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._axes import canonical
from anylayer.network import Array


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
