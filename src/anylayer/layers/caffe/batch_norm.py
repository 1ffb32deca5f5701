"""BatchNorm."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._messages import EPSILONS, INTEL, constant, engine_field, is_training, no_effect
from anylayer.network import Array


@layer("BatchNorm")
class BatchNorm(Layer):
    """Compute (x - mean) / sqrt(variance + eps) per channel, without scale and shift.

    (N, C, ...) to the same shape.
    Weights: the sums of means (C,) and of variances (C,), and their divisor (1,), where 0 makes both 0. With
    `use_global_stats: false`, mean and biased variance are those of the input over all axes but 1.
    Source: BVLC/caffe src/caffe/layers/batch_norm_layer.cpp; arXiv 1502.03167.
    """

    elementwise = True
    message = "batch_norm_param"
    numbers = {"": 139}
    use_global_stats: bool | None = field(
        1, "bool", None, doc="take the stored statistics; default: true at TEST, false at TRAIN"
    )
    moving_average_fraction: float = field(
        2, "float", 0.999, doc="momentum of the stored statistics, for training"
    )
    eps: float = field(3, "float", 1e-5, doc="added to the variance", others=EPSILONS)
    update_global_stats: bool = field(4, "bool", False, doc="DeepLab v2, PSPNet: store statistics (training)")

    engine: str = engine_field(11, INTEL)
    use_weight_bias: bool = no_effect(5, "bool", True)
    bias_term: bool = no_effect(6, "bool", True)
    stats_batch_size: int = no_effect(9, "uint32", 0)
    relu: bool = no_effect(10, "bool", False)

    def forward(self, x: Array) -> Any:
        need(len(x.shape) >= 1, "needs an input with axes, got shape ()")
        channels = 1 if len(x.shape) == 1 else x.shape[1]
        shape = (1, channels, *(1,) * (len(x.shape) - 2))[: len(x.shape)]
        stored = not is_training(self) if self.use_global_stats is None else self.use_global_stats
        filler = None if stored else constant(0)
        mean = self.blob(0, (channels,), filler, what="mean")
        variance = self.blob(1, (channels,), filler, what="variance")
        factor = self.blob(2, (1,), filler, what="factor")[0]
        if not stored:
            return self._of_the_batch(x)
        divided = np.float32(1) / factor if factor != 0 else np.float32(0)
        scale = np.float32(1) / np.sqrt(variance * divided + np.float32(self.eps))
        shift = -mean * divided * scale
        return x * scale.reshape(shape) + shift.reshape(shape)

    def _of_the_batch(self, x: Array) -> Any:
        axes = (0, *range(2, len(x.shape)))
        centred = x - x.mean(axis=axes, keepdims=True)
        variance = (centred * centred).mean(axis=axes, keepdims=True)
        return centred / np.sqrt(variance + np.float32(self.eps))
