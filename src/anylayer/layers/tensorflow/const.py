"""Constants."""

from __future__ import annotations

from anylayer.layer import Array, attribute, layer, need
from anylayer.layers.tensorflow._base import TensorFlowLayer


@layer("Const")
class Const(TensorFlowLayer):
    """Return the array that the file holds, in its shape and dtype.

    Source: tf.raw_ops.Const; tensorflow/core/kernels/constant_op.cc.
    """

    dtype: str = attribute("string")

    def forward(self) -> Array:
        need(len(self._blobs) == 1, f"a constant needs one value in the file, got {len(self._blobs)}")
        return self.blob(0, self._blobs[0].shape, what="value")
