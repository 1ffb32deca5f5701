"""Normalisation over neighbours."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Operation, attribute, axes_of, layer, need, whole
from anylayer.layers.tensorflow._spatial import as_before, channels_first


@layer("LRN")
class LRN(Operation):
    """x / (bias + alpha * s) ^ beta, where s sums x * x over depth_radius channels before and behind."""

    depth_radius: int = attribute("int64", 5)
    bias: float = attribute("float", 1.0)
    alpha: float = attribute("float", 1.0)
    beta: float = attribute("float", 0.5)

    def forward(self, x: Any) -> Any:
        need(len(x.shape) == 4, f"the input must have 4 axes, got shape {tuple(x.shape)}")
        need(self.depth_radius >= 0, f"depth_radius must not be negative, got {self.depth_radius}")
        size = 2 * min(self.depth_radius, x.shape[-1]) + 1
        y = ops.lrn(channels_first(x, "NHWC"), size, alpha=self.alpha * size, beta=self.beta, bias=self.bias)
        return as_before(y, "NHWC")


@layer("L2Normalize")
class L2Normalize(Operation):
    """x / sqrt(max(s, 1e-12)), where s sums x * x over the axes given (written by OpenCV's tools)."""

    def forward(self, x: Any, axes: Any) -> Any:
        over = tuple(axes_of(whole(np.reshape(axes, -1), "axes"), len(x.shape)))
        squares = np.sum(x * x, axis=over, keepdims=True)
        return x / np.sqrt(np.maximum(squares, np.float32(1e-12)))
