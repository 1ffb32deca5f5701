"""Normalization: by statistics of a batch, over neighbours, and by Euclidean length."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Enum, attribute, need, need_shape
from anylayer.layer.arguments import axes_in, channels_first, restored
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer, results


def _fused_batch_norm(
    x: Array, scale: Array, offset: Array, mean: Array, variance: Array, epsilon: float, is_training: bool,
    data_format: str, *, note: Callable[[str], None],
) -> tuple[Array, ...]:  # fmt: skip
    y = channels_first(x, data_format)
    if is_training:
        axes = (0, *range(2, len(y.shape)))
        mean, variance = y.mean(axis=axes), y.var(axis=axes)
        note("normalizes by the statistics of the batch (is_training)")
    need_shape(mean, tuple(scale.shape), "mean", about=", as scale")
    y = ops.batch_normalization(y, scale, offset, mean, variance, epsilon=epsilon)
    shown = variance
    if is_training:
        count = int(np.prod([d for i, d in enumerate(x.shape) if x.shape[i]])) // max(scale.shape[0], 1)
        shown = variance * np.float32(count / max(count - 1, 1))
    return restored(y, data_format), mean, shown, mean, variance, np.zeros(0, np.float32)


def _global_batch_norm(
    x: Array, mean: Array, variance: Array, beta: Array, gamma: Array, variance_epsilon: float,
    scale_after_normalization: bool,
) -> Array:  # fmt: skip
    scale = gamma if scale_after_normalization else np.ones(mean.shape, np.float32)
    y = ops.batch_normalization(channels_first(x, "NHWC"), scale, beta, mean, variance, epsilon=variance_epsilon)
    return restored(y, "NHWC")


_BATCH = row("Compute (x - mean) / sqrt(variance + epsilon) * scale + offset per channel.", _fused_batch_norm,
    details="x is (N, H, W, C) or as data_format says, with 4 or 5 axes; the other inputs are (C,). With "
    "is_training, mean and variance are those of the batch. Outputs: y of the shape of x; the mean and the "
    "variance that normalize x (with is_training the unbiased variance); and the values that only a gradient "
    "needs.",
    body={
        "harmless": frozenset({"exponential_avg_factor"}), "shown": 1, "results": results(
            "y", "batch_mean", "batch_variance", "reserve_space_1", "reserve_space_2", "reserve_space_3"),
    },
    epsilon=attribute("float", 1e-4), is_training=attribute("bool", True),
    data_format=attribute(Enum("NHWC", "NCHW", "NDHWC", "NCDHW"), "NHWC"))  # fmt: skip

operators(
    TensorFlowLayer,
    "Source: tf.raw_ops.FusedBatchNorm, FusedBatchNormV2, FusedBatchNormV3;\n"
    "    tensorflow/core/kernels/fused_batch_norm_op.cc.",
    {"FusedBatchNorm": _BATCH, "FusedBatchNormV2": _BATCH, "FusedBatchNormV3": _BATCH},
)


def _lrn(x: Array, depth_radius: int, bias: float, alpha: float, beta: float) -> Array:
    need(len(x.shape) == 4, f"the input must have 4 axes, got shape {tuple(x.shape)}")
    need(depth_radius >= 0, f"depth_radius must be 0 or more, got {depth_radius}")
    size = 2 * min(depth_radius, x.shape[-1]) + 1
    y = ops.lrn(channels_first(x, "NHWC"), size, alpha=alpha * size, beta=beta, bias=bias)
    return restored(y, "NHWC")


def _l2_normalize(x: Array, axes: Array) -> Array:
    squares = np.sum(x * x, axis=tuple(axes_in(x, axes)), keepdims=True)
    return x / np.sqrt(np.maximum(squares, np.float32(1e-12)))


operators(
    TensorFlowLayer,
    f"{SOURCE}{{}}.",
    {
        "BatchNormWithGlobalNormalization": row(
            "Compute (x - mean) / sqrt(variance + variance_epsilon) * gamma + beta per "
            "channel.", _global_batch_norm,
            "batch_norm_op.cc",
            "x and the output are (N, H, W, C), the other inputs (C,). gamma counts with "
            "scale_after_normalization only. Graphs of the first releases of TensorFlow contain it; "
            "FusedBatchNorm replaced it.",
            variance_epsilon=attribute("float"), scale_after_normalization=attribute("bool")),
        "LRN": row(
            "Compute x / (bias + alpha * s)^beta, where s is the sum of squares over nearby "
            "channels.", _lrn, "lrn_op.cc",
            "x and the output are (N, H, W, C). s sums over the channel itself and depth_radius channels "
            "on either side.",
            depth_radius=attribute("int64", 5), bias=attribute("float", 1.0), alpha=attribute("float", 1.0),
            beta=attribute("float", 0.5)),
    },
)  # fmt: skip
operators(
    TensorFlowLayer,
    "The axes are a constant. TensorFlow has no such operation; OpenCV's tools write it into text graphs.\n"
    "    Source: OpenCV modules/dnn/src/tensorflow/tf_importer.cpp, parseL2Normalize.",
    {
        "L2Normalize": row(
            "Compute x / sqrt(max(s, 1e-12)), where s is the sum of squares over the given axes.", _l2_normalize
        )
    },
)
