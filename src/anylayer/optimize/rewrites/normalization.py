"""Normalizations that an engine computes faster as other operators."""

from __future__ import annotations

import numpy as np

from anylayer.graph.ir import Op, Value
from anylayer.optimize.rules import F4, Rewriter, rule

_MAX_CHANNELS = 512
"""The largest number of channels for which a convolution with a banded matrix is faster than LRN."""


@rule(
    "LRN",
    targets=("onnxruntime",),
    kind="faster",
    stage="last",
    figure="GoogLeNet, whole: 32.1 ms with the operator, 21.4",
)
def _lrn(new: Rewriter, o: Op) -> list[Value] | None:
    """Compute the sums of LRN over neighbouring channels as a 1x1 Conv of the squares with a banded matrix. ONNX
    Runtime computes LRN on one thread, and not in the layout of the convolutions around it."""
    x = o.inputs[0]
    if x is None or x.dtype != F4 or not isinstance(x.shape[1], int) or x.shape[1] > _MAX_CHANNELS:
        return None
    channels, size = x.shape[1], int(o["size"])
    alpha, beta, bias = (float(o[name]) for name in ("alpha", "beta", "bias"))
    distance = np.arange(channels)[None, :] - np.arange(channels)[:, None]
    band = (distance >= -((size - 1) // 2)) & (distance <= size // 2)
    weights = new.constant(np.where(band, np.float32(alpha / size), np.float32(0))[:, :, None, None])
    shift = new.constant(np.full(channels, bias, np.float32))
    base = new.step(o, "Conv", [new.step(o, "Mul", [x, x]), weights, shift], kernel_shape=[1, 1])
    if beta != 0.75:
        scale = new.step(o, "Pow", [base, new.constant(np.float32(-beta))])
        return new.emit(o, "Mul", [x, scale])
    root = new.step(o, "Sqrt", [base])  # a Pow takes four times as long
    return new.emit(o, "Div", [x, new.step(o, "Mul", [root, new.step(o, "Sqrt", [root])])])
