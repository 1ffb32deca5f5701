"""Activation functions."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layer import Layer
from anylayer.layers._table import OperatorType, computes, operators
from anylayer.layers.tensorflow._base import SAME_SHAPE, SOURCE, TensorFlowLayer, attribute, need
from anylayer.network import Array


def _need_axis(self: Layer, x: Array) -> None:
    need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")


operators(
    TensorFlowLayer,
    f"{SAME_SHAPE}\n    {SOURCE}relu_op_functor.h.",
    {
        "Relu": computes("max(x, 0)", ops.relu),
        "Relu6": computes("min(max(x, 0), 6)", lambda x: np.clip(x, 0, 6)),
        "Elu": computes("x where x > 0, else exp(x) - 1", lambda x: ops.elu(x, 1.0)),
        "LeakyRelu": OperatorType(
            "Compute x where x > 0, else alpha * x.",
            ops.leaky_relu,
            attributes={"alpha": attribute("float", 0.2, doc="slope of the negative part")},
        ),
        # The constants are those of Klambauer et al., Self-Normalizing Neural Networks (arXiv 1706.02515).
        "Selu": computes(
            "1.0507 * x where x > 0, else 1.7581 * (exp(x) - 1)",
            lambda x: ops.elu(x, 1.6732632423543772) * 1.0507009873554805,
        ),
    },
)
operators(
    TensorFlowLayer,
    f"{SAME_SHAPE}\n    {SOURCE}softplus_op.h.",
    {"Softplus": computes("log(1 + exp(x))", ops.softplus)},
)
operators(
    TensorFlowLayer,
    f"{SAME_SHAPE}\n    {SOURCE}softsign_op.h.",
    {"Softsign": computes("x / (1 + |x|)", lambda x: x / (1 + np.abs(x)))},
)
operators(
    TensorFlowLayer,
    f"{SAME_SHAPE}\n    {SOURCE}cwise_ops.h.",
    {"Sigmoid": computes("the logistic function 1 / (1 + exp(-x))", ops.sigmoid)},
)
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
