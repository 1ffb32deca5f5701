"""PReLU."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, field, layer, need
from anylayer.layers.caffe._messages import FillerParameter, constant
from anylayer.network import Array


@layer("PReLU")
class PReLU(Layer):
    """Compute x where x > 0, else slope * x with a learned slope.

    (N, C, ...) to the same shape. Weight: slope (C,), or () with `channel_shared`.
    Source: BVLC/caffe src/caffe/layers/prelu_layer.cpp; arXiv 1502.01852.
    """

    elementwise = True
    message = "prelu_param"
    numbers = {"": 131}
    filler: FillerParameter = field(1, FillerParameter, doc="values of the slope without a file; default 0.25")
    channel_shared: bool = field(2, "bool", False, doc="one slope for all channels")

    def forward(self, x: Array) -> Array:
        need(len(x.shape) >= 2, f"needs an input of 2 axes or more (N, C, ...), got shape {tuple(x.shape)}")
        filler = self.filler if self.has("filler") else constant(0.25)
        slope = self.blob(0, () if self.channel_shared else (x.shape[1],), filler, what="slope")
        return ops.prelu(x, slope.reshape(-1, *(1,) * (len(x.shape) - 2)))
