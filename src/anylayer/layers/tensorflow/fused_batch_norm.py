"""Batch normalisation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Enum, Operation, attribute, layer, need
from anylayer.layers.tensorflow._spatial import as_before, channels_first


@layer("FusedBatchNorm")
@layer("FusedBatchNormV2")
@layer("FusedBatchNormV3")
class FusedBatchNorm(Operation):
    """(x - mean) / sqrt(variance + epsilon) * scale + offset, channel by channel.

    With is_training mean and variance are the batch's own, as in the framework. The further outputs (mean,
    variance, and what a gradient would need) are those of the normalisation.
    """

    epsilon: float = attribute("float", 1e-4)
    is_training: bool = attribute("bool", True)
    data_format: str = attribute(Enum("NHWC", "NCHW", "NDHWC", "NCDHW"), "NHWC")
    harmless = frozenset({"exponential_avg_factor"})
    shown = 1

    @classmethod
    def results(cls, attr: Mapping[str, Any]) -> Sequence[tuple[str, int]]:
        names = ["y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"]
        return [(name, 1) for name in names]

    def forward(self, x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
        y = channels_first(x, self.data_format)
        if self.is_training:
            axes = (0, *range(2, len(y.shape)))
            mean, variance = y.mean(axis=axes), y.var(axis=axes)
            self.note("normalises by its own batch (is_training)")
        need(
            tuple(mean.shape) == tuple(scale.shape),
            f"mean must be of shape {tuple(scale.shape)}, got {tuple(mean.shape)}",
        )
        y = ops.batch_normalization(y, scale, offset, mean, variance, epsilon=self.epsilon)
        shown = variance
        if self.is_training:
            count = int(np.prod([d for i, d in enumerate(x.shape) if x.shape[i]])) // max(scale.shape[0], 1)
            shown = variance * np.float32(count / max(count - 1, 1))
        return as_before(y, self.data_format), mean, shown, mean, variance, np.zeros(0, np.float32)


@layer("BatchNormWithGlobalNormalization")
class BatchNormWithGlobalNormalization(Operation):
    """(x - mean) / sqrt(variance + variance_epsilon) * gamma + beta, channels last (the oldest graphs)."""

    variance_epsilon: float = attribute("float")
    scale_after_normalization: bool = attribute("bool")

    def forward(self, x: Any, mean: Any, variance: Any, beta: Any, gamma: Any) -> Any:
        scale = gamma if self.scale_after_normalization else np.ones(mean.shape, np.float32)
        y = channels_first(x, "NHWC")
        y = ops.batch_normalization(y, scale, beta, mean, variance, epsilon=self.variance_epsilon)
        return as_before(y, "NHWC")
