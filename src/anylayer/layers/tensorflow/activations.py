"""Activation functions."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Array, Layer, attribute, need
from anylayer.layers._table import computes, operators, row
from anylayer.layers.tensorflow._base import SAME_SHAPE, SOURCE, TensorFlowLayer


def _need_axis(self: Layer, x: Array) -> None:
    need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")


operators(
    TensorFlowLayer,
    f"{SAME_SHAPE}\n    {SOURCE}{{}}.",
    {
        "Relu": computes("max(x, 0)", ops.relu, "relu_op_functor.h"),
        "Relu6": computes("min(max(x, 0), 6)", lambda x: np.clip(x, 0, 6), "relu_op_functor.h"),
        "Elu": computes("x where x > 0, else exp(x) - 1", lambda x: ops.elu(x, 1.0), "relu_op_functor.h"),
        "LeakyRelu": row("Compute x where x > 0, else alpha * x.", ops.leaky_relu, "relu_op_functor.h",
            alpha=attribute("float", 0.2, doc="slope of the negative part")),
        # The constants are those of Klambauer et al., Self-Normalizing Neural Networks (arXiv 1706.02515).
        "Selu": computes("1.0507 * x where x > 0, else 1.7581 * (exp(x) - 1)",
            lambda x: ops.elu(x, 1.6732632423543772) * 1.0507009873554805, "relu_op_functor.h"),
        "Softplus": computes("log(1 + exp(x))", ops.softplus, "softplus_op.h"),
        "Softsign": computes("x / (1 + |x|)", lambda x: x / (1 + np.abs(x)), "softsign_op.h"),
        "Sigmoid": computes("the logistic function 1 / (1 + exp(-x))", ops.sigmoid, "cwise_ops.h"),
    },
)  # fmt: skip
operators(
    TensorFlowLayer,
    f"The output has the shape of the input.\n    {SOURCE}softmax_op.cc.",
    {
        "Softmax": computes("exp(x), divided by its sum over the last axis", lambda x: ops.softmax(x, axis=-1)),
        "LogSoftmax": computes(
            "x minus the logarithm of the sum of exp(x) over the last axis", lambda x: ops.log_softmax(x, axis=-1)
        ),
    },
    check=_need_axis,
)
