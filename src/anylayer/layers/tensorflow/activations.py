"""Activation functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from anylayer import ops
from anylayer.layers.tensorflow._base import Operation, attribute, layer, need


@layer("Relu")
class Relu(Operation):
    """Compute max(x, 0) of each element.

    The output has the shape of x. Source: tf.raw_ops.Relu; tensorflow/core/kernels/relu_op_functor.h.
    """

    def forward(self, x: Any) -> Any:
        return ops.relu(x)


@layer("Relu6")
class Relu6(Operation):
    """Compute min(max(x, 0), 6) of each element.

    The output has the shape of x. Source: tf.raw_ops.Relu6; tensorflow/core/kernels/relu_op_functor.h.
    """

    def forward(self, x: Any) -> Any:
        return np.clip(x, 0, 6)


@layer("LeakyRelu")
class LeakyRelu(Operation):
    """Compute x where x > 0, else alpha * x.

    The output has the shape of x. Source: tf.raw_ops.LeakyRelu; tensorflow/core/kernels/relu_op_functor.h.
    """

    alpha: float = attribute("float", 0.2, doc="slope of the negative part")

    def forward(self, x: Any) -> Any:
        return ops.leaky_relu(x, self.alpha)


@layer("Elu")
class Elu(Operation):
    """Compute x where x > 0, else exp(x) - 1.

    The output has the shape of x. Source: tf.raw_ops.Elu; tensorflow/core/kernels/relu_op_functor.h.
    """

    def forward(self, x: Any) -> Any:
        return ops.elu(x, 1.0)


@layer("Selu")
class Selu(Operation):
    """Compute scale * x where x > 0, else scale * alpha * (exp(x) - 1).

    The output has the shape of x. scale = 1.0507... and alpha = 1.6732... are the
    constants of Klambauer et al., Self-Normalizing Neural Networks (arXiv 1706.02515).
    Source: tf.raw_ops.Selu; tensorflow/core/kernels/relu_op_functor.h.
    """

    def forward(self, x: Any) -> Any:
        return ops.elu(x, 1.6732632423543772) * 1.0507009873554805


@layer("Softplus")
class Softplus(Operation):
    """Compute log(1 + exp(x)) of each element.

    The output has the shape of x. Source: tf.raw_ops.Softplus; tensorflow/core/kernels/softplus_op.h.
    """

    def forward(self, x: Any) -> Any:
        return ops.softplus(x)


@layer("Softsign")
class Softsign(Operation):
    """Compute x / (1 + |x|) of each element.

    The output has the shape of x. Source: tf.raw_ops.Softsign; tensorflow/core/kernels/softsign_op.h.
    """

    def forward(self, x: Any) -> Any:
        return x / (1 + np.abs(x))


@layer("Sigmoid")
class Sigmoid(Operation):
    """Compute the logistic function 1 / (1 + exp(-x)) of each element.

    The output has the shape of x. Source: tf.raw_ops.Sigmoid; tensorflow/core/kernels/cwise_ops.h.
    """

    def forward(self, x: Any) -> Any:
        return ops.sigmoid(x)


@layer("Softmax")
class Softmax(Operation):
    """Compute exp(x), divided by its sum over the last axis.

    The output has the shape of x. Source: tf.raw_ops.Softmax; tensorflow/core/kernels/softmax_op.cc.
    """

    def forward(self, x: Any) -> Any:
        need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")
        return ops.softmax(x, axis=-1)


@layer("LogSoftmax")
class LogSoftmax(Operation):
    """Compute x minus the logarithm of the sum of exp(x) over the last axis.

    The output has the shape of x. Source: tf.raw_ops.LogSoftmax; tensorflow/core/kernels/softmax_op.cc.
    """

    def forward(self, x: Any) -> Any:
        need(len(x.shape) >= 1, "the input must have 1 axis or more, got a scalar")
        return ops.log_softmax(x, axis=-1)
