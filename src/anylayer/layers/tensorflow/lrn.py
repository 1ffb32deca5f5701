"""Normalization over neighbours: local response and Euclidean length."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layer import Array, attribute, need
from anylayer.layer.arguments import axes_in, channels_first, restored
from anylayer.layers._table import operators, row
from anylayer.layers.tensorflow._base import SOURCE, TensorFlowLayer


def _lrn(x: Array, depth_radius: int, bias: float, alpha: float, beta: float) -> Any:
    need(len(x.shape) == 4, f"the input must have 4 axes, got shape {tuple(x.shape)}")
    need(depth_radius >= 0, f"depth_radius must be 0 or more, got {depth_radius}")
    size = 2 * min(depth_radius, x.shape[-1]) + 1
    y = ops.lrn(channels_first(x, "NHWC"), size, alpha=alpha * size, beta=beta, bias=bias)
    return restored(y, "NHWC")


def _l2_normalize(x: Array, axes: Array) -> Any:
    squares = np.sum(x * x, axis=tuple(axes_in(x, axes)), keepdims=True)
    return x / np.sqrt(np.maximum(squares, np.float32(1e-12)))


operators(
    TensorFlowLayer,
    f"{SOURCE}lrn_op.cc.",
    {
        "LRN": row(
            "Compute x / (bias + alpha * s)^beta, where s is the sum of squares over nearby channels.", _lrn,
            details="x and the output are (N, H, W, C). s sums over the channel itself and depth_radius channels "
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
        ),
    },
)
