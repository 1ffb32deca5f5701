"""Activation functions."""

from __future__ import annotations

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import TensorFlowLayer, attribute, layer, need
from anylayer.layers.tensorflow.unary import family
from anylayer.network import Array

family(
    {
        "Relu": ("max(x, 0)", ops.relu),
        "Relu6": ("min(max(x, 0), 6)", lambda x: np.clip(x, 0, 6)),
        "Elu": ("x where x > 0, else exp(x) - 1", lambda x: ops.elu(x, 1.0)),
    },
    "relu_op_functor.h",
)
family({"Softplus": ("log(1 + exp(x))", ops.softplus)}, "softplus_op.h")
family({"Softsign": ("x / (1 + |x|)", lambda x: x / (1 + np.abs(x)))}, "softsign_op.h")
family({"Sigmoid": ("the logistic function 1 / (1 + exp(-x))", ops.sigmoid)}, "cwise_ops.h")


@layer("LeakyRelu")
class LeakyRelu(TensorFlowLayer):
    """Compute x where x > 0, else alpha * x.

    The output has the shape of x. Source: tf.raw_ops.LeakyRelu; tensorflow/core/kernels/relu_op_functor.h.
    """

    alpha: float = attribute("float", 0.2, doc="slope of the negative part")

    def forward(self, x: Array) -> Array:
        return ops.leaky_relu(x, self.alpha)


@layer("Selu")
class Selu(TensorFlowLayer):
    """Compute scale * x where x > 0, else scale * alpha * (exp(x) - 1).

    The output has the shape of x. scale = 1.0507... and alpha = 1.6732... are the
    constants of Klambauer et al., Self-Normalizing Neural Networks (arXiv 1706.02515).
    Source: tf.raw_ops.Selu; tensorflow/core/kernels/relu_op_functor.h.
    """

    def forward(self, x: Array) -> Array:
        return ops.elu(x, 1.6732632423543772) * 1.0507009873554805


@layer("Softmax")
class Softmax(TensorFlowLayer):
    """Compute exp(x), divided by its sum over the last axis.

    The output has the shape of x. Source: tf.raw_ops.Softmax; tensorflow/core/kernels/softmax_op.cc.
    """

    def forward(self, x: Array) -> Array:
        need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")
        return ops.softmax(x, axis=-1)


@layer("LogSoftmax")
class LogSoftmax(TensorFlowLayer):
    """Compute x minus the logarithm of the sum of exp(x) over the last axis.

    The output has the shape of x. Source: tf.raw_ops.LogSoftmax; tensorflow/core/kernels/softmax_op.cc.
    """

    def forward(self, x: Array) -> Array:
        need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")
        return ops.log_softmax(x, axis=-1)
