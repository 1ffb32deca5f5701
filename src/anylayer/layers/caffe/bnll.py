"""BNLL (binomial normal log likelihood)."""

from __future__ import annotations

from anylayer import ops
from anylayer.layer import Layer, layer
from anylayer.network import Array


@layer("BNLL")
class BNLL(Layer):
    """Compute log(1 + exp(x)), the softplus.

    The output has the shape of the input.
    Source: BVLC/caffe src/caffe/layers/bnll_layer.cpp.
    """

    elementwise = True

    def forward(self, x: Array) -> Array:
        return ops.softplus(x)
