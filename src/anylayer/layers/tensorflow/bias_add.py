"""Addition of a bias."""

from __future__ import annotations

from anylayer.layer import Array, Enum, attribute, layer, need
from anylayer.layers.tensorflow._base import TensorFlowLayer


@layer("BiasAdd")
@layer("BiasAddV1")
class BiasAdd(TensorFlowLayer):
    """Add one bias per channel.

    Inputs: x of rank 2 or more and a bias of shape (C,), where C is the size of the last axis, or of axis 1 with
    data_format NCHW. The output has the shape of x.
    Source: tf.raw_ops.BiasAdd, tf.raw_ops.BiasAddV1; tensorflow/core/kernels/bias_op.cc.
    """

    data_format: str = attribute(Enum("NHWC", "NCHW"), "NHWC")

    def forward(self, x: Array, bias: Array) -> Array:
        rank = len(x.shape)
        need(rank >= 2, f"the input must have 2 axes or more, got shape {tuple(x.shape)}")
        axis = 1 if self.data_format == "NCHW" else rank - 1
        need(
            tuple(bias.shape) == (x.shape[axis],),
            f"the bias must be of shape ({x.shape[axis]},), one number per channel, got {tuple(bias.shape)}",
        )
        return x + bias.reshape(-1, *(1,) * (rank - 1 - axis))
