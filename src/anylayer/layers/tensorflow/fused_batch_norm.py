"""Batch normalization."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, layer, need_shape
from anylayer.layer.arguments import channels_first, restored
from anylayer.layers.tensorflow._base import TensorFlowLayer, results


@layer("FusedBatchNorm")
@layer("FusedBatchNormV2")
@layer("FusedBatchNormV3")
class FusedBatchNorm(TensorFlowLayer):
    """Compute (x - mean) / sqrt(variance + epsilon) * scale + offset per channel.

    x is (N, H, W, C) or as data_format says, with 4 or 5 axes; the other inputs are (C,). With is_training, mean
    and variance are those of the batch. Outputs: y of the shape of x; the mean and the variance that normalize x
    (with is_training the unbiased variance); and the values that only a gradient needs.
    Source: tf.raw_ops.FusedBatchNorm, FusedBatchNormV2, FusedBatchNormV3;
    tensorflow/core/kernels/fused_batch_norm_op.cc.
    """

    epsilon: float = attribute("float", 1e-4)
    is_training: bool = attribute("bool", True)
    data_format: str = attribute(Enum("NHWC", "NCHW", "NDHWC", "NCDHW"), "NHWC")
    harmless = frozenset({"exponential_avg_factor"})
    shown = 1

    results = results("y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3")

    def forward(
        self, x: Array, scale: Array, offset: Array, mean: Array, variance: Array
    ) -> tuple[Array, Array, Array, Array, Array, Array]:
        y = channels_first(x, self.data_format)
        if self.is_training:
            axes = (0, *range(2, len(y.shape)))
            mean, variance = y.mean(axis=axes), y.var(axis=axes)
            self.note("normalizes by the statistics of the batch (is_training)")
        need_shape(mean, tuple(scale.shape), "mean", about=", as scale")
        y = ops.batch_normalization(y, scale, offset, mean, variance, epsilon=self.epsilon)
        shown = variance
        if self.is_training:
            count = int(np.prod([d for i, d in enumerate(x.shape) if x.shape[i]])) // max(scale.shape[0], 1)
            shown = variance * np.float32(count / max(count - 1, 1))
        return restored(y, self.data_format), mean, shown, mean, variance, np.zeros(0, np.float32)


@layer("BatchNormWithGlobalNormalization")
class BatchNormWithGlobalNormalization(TensorFlowLayer):
    """Compute (x - mean) / sqrt(variance + variance_epsilon) * gamma + beta per channel.

    x and the output are (N, H, W, C), the other inputs (C,). gamma counts with scale_after_normalization only.
    Graphs of the first releases of TensorFlow contain it; FusedBatchNorm replaced it.
    Source: tf.raw_ops.BatchNormWithGlobalNormalization; tensorflow/core/kernels/batch_norm_op.cc.
    """

    variance_epsilon: float = attribute("float")
    scale_after_normalization: bool = attribute("bool")

    def forward(self, x: Array, mean: Array, variance: Array, beta: Array, gamma: Array) -> Any:
        scale = gamma if self.scale_after_normalization else np.ones(mean.shape, np.float32)
        y = channels_first(x, "NHWC")
        y = ops.batch_normalization(y, scale, beta, mean, variance, epsilon=self.variance_epsilon)
        return restored(y, "NHWC")
