"""Normalization over neighbours: local response and Euclidean length."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import TensorFlowLayer, attribute, axes_of, integers, layer, need
from anylayer.layers.tensorflow._spatial import channels_first, restored
from anylayer.network import Array


@layer("LRN")
class LRN(TensorFlowLayer):
    """Compute x / (bias + alpha * s)^beta, where s is the sum of squares over nearby channels.

    x and the output are (N, H, W, C). s sums over the channel itself and depth_radius channels on either side.
    Source: tf.raw_ops.LRN; tensorflow/core/kernels/lrn_op.cc.
    """

    depth_radius: int = attribute("int64", 5)
    bias: float = attribute("float", 1.0)
    alpha: float = attribute("float", 1.0)
    beta: float = attribute("float", 0.5)

    def forward(self, x: Array) -> Any:
        need(len(x.shape) == 4, f"the input must have 4 axes, got shape {tuple(x.shape)}")
        need(self.depth_radius >= 0, f"depth_radius must be 0 or more, got {self.depth_radius}")
        size = 2 * min(self.depth_radius, x.shape[-1]) + 1
        y = ops.lrn(channels_first(x, "NHWC"), size, alpha=self.alpha * size, beta=self.beta, bias=self.bias)
        return restored(y, "NHWC")


@layer("L2Normalize")
class L2Normalize(TensorFlowLayer):
    """Compute x / sqrt(max(s, 1e-12)), where s is the sum of squares over the given axes.

    x and the output have the same shape; the axes are a constant. TensorFlow has no such operation; OpenCV's tools
    write it into text graphs.
    Source: OpenCV modules/dnn/src/tensorflow/tf_importer.cpp, parseL2Normalize.
    """

    def forward(self, x: Array, axes: Array) -> Any:
        over = tuple(axes_of(integers(np.reshape(axes, -1), "axes"), len(x.shape)))
        squares = np.sum(x * x, axis=over, keepdims=True)
        return x / np.sqrt(np.maximum(squares, np.float32(1e-12)))
