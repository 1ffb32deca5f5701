"""Layers that compute a function of each element and have no parameters."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Layer
from anylayer.layers._table import computes, operators


class Elementwise(Layer):
    """A function of each element."""

    elementwise = True


operators(
    Elementwise,
    "The output has the shape of the input.\n    Source: {}.",
    {
        "BNLL": computes(
            "log(1 + exp(x)), the softplus", ops.softplus, "BVLC/caffe src/caffe/layers/bnll_layer.cpp"
        ),
        "GELU": computes("x * P(X <= x) for a standard normal X", ops.gelu, "arXiv 1606.08415"),
        "HardSigmoid": computes(
            "0.2 * x + 0.5, clipped to 0..1",
            lambda x: ops.hard_sigmoid(x, 0.2, 0.5),
            "eric612/MobileNet-YOLO src/caffe/layers/hard_sigmoid_layer.cpp",
        ),
        "HardSwish": computes(
            "x * min(max(x + 3, 0), 6) / 6",
            lambda x: x * ops.hard_sigmoid(x, 1 / 6, 0.5),
            "MobileNet v3, arXiv 1905.02244",
        ),
        "Mish": computes("x * tanh(log(1 + exp(x)))", lambda x: x * np.tanh(ops.softplus(x)), "arXiv 1908.08681"),
    },
)
